"""One question to a rule: which part of an input does a part of an output need?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compiler.ir.graph import Node, TensorType
from compiler.regions.box import Box


@dataclass(frozen=True, slots=True)
class Asked:
    """A box of output number `output` of a node, and the number of the input asked about.

    `small` holds the values of small integer constants by name: starts, axes, pads.
    """

    node: Node
    types: Mapping[str, TensorType]
    small: Mapping[str, tuple[int, ...]]
    index: int
    box: Box
    output: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the input asked about."""
        return self.shape_of(self.index)

    @property
    def made(self) -> tuple[int, ...]:
        """Shape of the output."""
        return self.types[self.node.outputs[self.output]].shape

    def shape_of(self, index: int) -> tuple[int, ...]:
        """Shape of an input."""
        return self.types[self.node.inputs[index]].shape

    def values(self, index: int) -> tuple[int, ...] | None:
        """Values of an input that is a small constant; `None` where it is not, or absent."""
        given = index < len(self.node.inputs) and self.node.inputs[index]
        return self.small.get(self.node.inputs[index]) if given else None

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.node.inputs) and bool(self.node.inputs[index])

    def axis(self, default: int, rank: int) -> int:
        """The `axis` attribute, counted from the front."""
        return self.node.int("axis", default) % max(rank, 1)


Rule = Callable[[Asked], Box | None]
"""Gives the box, or `None` where it has no better answer than the whole input."""
