"""What a kernel gets: a node, the box of its output that is wanted, and a way to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from compiler.execute.rounding import held_dtype
from compiler.ir.graph import Array, Node, TensorType
from compiler.regions import Box, needed, whole

Read = Callable[[int, Box], Array]
"""The values of a box of an input, by its number: floats in float32, others in their own type."""


@dataclass(frozen=True, slots=True)
class Work:
    """One box of one output of a node.

    `small` holds the values of small integer constants by name, `memo` the results of nodes that
    can only be computed whole, by node; it lives as long as one run.
    """

    node: Node
    types: Mapping[str, TensorType]
    output: int
    box: Box
    read: Read
    small: Mapping[str, tuple[int, ...]]
    memo: dict[str, tuple[Array, ...]] = field(default_factory=dict)

    @property
    def made(self) -> TensorType:
        """Type of the output."""
        return self.types[self.node.outputs[self.output]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the box."""
        return tuple(high - low for low, high in self.box)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type in which the output's values are held."""
        return held_dtype(self.made)

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def type(self, index: int) -> TensorType:
        """Type of an input."""
        return self.types[self.node.inputs[index]]

    def part(self, index: int) -> Box:
        """The box of an input that this box depends on."""
        return needed(self.node, self.types, index, self.box, self.output, self.small)

    def operand(self, index: int) -> Array:
        """The values of that box."""
        return self.read(index, self.part(index))

    def operands(self) -> list[Array]:
        """The values of each input's part, in order, absent ones left out."""
        return [self.operand(index) for index in range(len(self.node.inputs)) if self.has(index)]

    def all_of(self, index: int) -> Array:
        """A whole input."""
        return self.read(index, whole(self.type(index).shape))

    def ints(self, name: str, index: int) -> tuple[int, ...] | None:
        """A list of integers, an attribute of old opsets or a constant input of newer ones."""
        if name in self.node.attributes:
            return self.node.ints(name)
        if not self.has(index):
            return None
        return tuple(int(value) for value in self.all_of(index).reshape(-1))
