"""Values that come from outside a run: constants and inputs, and outputs on their way out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from compiler.errors import ExecutionError
from compiler.execute.rounding import held_dtype, numpy_dtype, rounded, rounded_constant
from compiler.ir.graph import Array, Graph, value_of

_SMALL_ELEMENTS = 64
"""assumed: starts, axes and pads, which say where an operator reads, are no longer than this."""


def constants_of(graph: Graph, *, rounds: bool = True) -> Callable[[str], Array]:
    """A way to get constants by name, each loaded once, as the device holds them."""
    loaded: dict[str, Array] = {}

    def constant(name: str) -> Array:
        if name not in loaded:
            value = value_of(graph.constants[name])
            if graph.types[name].dtype.is_float:
                value = value.astype(np.float32)
                value = rounded_constant(value) if rounds else value
            elif graph.types[name].dtype.is_narrow:
                value = value.astype(held_dtype(graph.types[name]))
            loaded[name] = value
        return loaded[name]

    return constant


def small_constants(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Values of the integer constants that may say where an operator reads."""
    return {
        name: tuple(int(v) for v in value_of(constant).reshape(-1))
        for name, constant in graph.constants.items()
        if not constant.type.dtype.is_float and constant.type.elements <= _SMALL_ELEMENTS
    }


def fed(graph: Graph, inputs: Mapping[str, Array], name: str, *, rounds: bool = True) -> Array:
    """An input as the device holds it; `ExecutionError` where it is missing or misshaped."""
    type_ = graph.types[name]
    if name not in inputs:
        raise ExecutionError(f"input {name} is missing; it is {type_.dtype.value} {type_.shape}")
    value = np.asarray(inputs[name])
    if value.shape != type_.shape:
        raise ExecutionError(f"input {name} has shape {value.shape}, the model has {type_.shape}")
    value = value.astype(held_dtype(type_))
    return rounded(value) if rounds and type_.dtype.is_float else value


def host_value(graph: Graph, name: str, value: Array) -> Array:
    """An output as the host receives it, shaped and typed as the model says."""
    type_ = graph.types[name]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(value).reshape(type_.shape).astype(numpy_dtype(type_.dtype))
