"""The graph that every pass reads and rewrites: concrete shapes, unique names, topological order.

Everything here is immutable; an edit builds a new `Graph`. Constants are kept by reference
(`Constant`): small ones carry their values because shapes may depend on them, large ones only
say where their values come from, so that a graph never holds a second copy of its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from compiler.ir.dtypes import DType

Array = NDArray[Any]
AttributeValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and concrete shape (every extent >= 0; `()` is a scalar)."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes in the element type as imported (not as the device stores it)."""
        return self.elements * self.dtype.size_bytes


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor that is known at compile time.

    `load()` gives its values, shape and dtype as in `type`; it may read a file or evaluate a
    folded expression, and may be called any number of times with equal results.
    """

    type: TensorType
    load: Callable[[], Array] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Node:
    """One operator call.

    `inputs` holds value names; an absent optional input is the empty string. `opset` is the
    version of `domain` that the model imports. Attributes hold resolved values only.
    """

    name: str
    op: str
    domain: str
    opset: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: MappingProxyType({}))

    def ints(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """An attribute that is a list of integers."""
        value = self.attributes.get(name, default)
        return tuple(int(v) for v in value) if isinstance(value, tuple) else default

    def int(self, name: str, default: int) -> int:
        """An attribute that is one integer."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def float(self, name: str, default: float) -> float:
        """An attribute that is one float."""
        value = self.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def str(self, name: str, default: str) -> str:
        """An attribute that is one string."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default


@dataclass(frozen=True, slots=True)
class Graph:
    """A model with every shape known.

    `types` covers each name that `inputs`, `outputs`, `constants` and `nodes` use. `batch_size`
    is the number of samples that one run of the graph handles.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Constant]
    batch_size: int

    def is_constant(self, name: str) -> bool:
        """Whether the value is known at compile time."""
        return name in self.constants


@runtime_checkable
class InPieces(Protocol):
    """A `Constant.load` whose values need not be in memory all at once."""

    def pieces(self, elements: int) -> Iterator[Array]:
        """The values in row-major order, flat, up to `elements` at a time."""


@runtime_checkable
class Packed(Protocol):
    """A `Constant.load` whose values take fewer bytes in DDR than in VTCM.

    They are unpacked to fp16 on their way to the unit that reads them.
    """

    @property
    def stored_bytes(self) -> int:
        """Bytes in DDR."""


def value_of(constant: Constant) -> Array:
    """The constant's values as a numpy array of the declared shape."""
    return np.asarray(constant.load()).reshape(constant.type.shape)
