"""The values of a box of a node's output: by an own kernel, else by ONNX's reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from compiler.errors import ExecutionError
from compiler.execute.kernels import elementwise, moves, products, quantized, rows, windows
from compiler.execute.rounding import numpy_dtype
from compiler.execute.work import Work
from compiler.frontend.reference import run_node
from compiler.ir.graph import Array
from compiler.operators import INTERNAL_DOMAIN, WorkKind, find
from compiler.regions import REDUCTIONS, whole

_KERNELS: dict[str, Callable[[Work], Array | None]] = {
    **elementwise.KERNELS,
    **products.KERNELS,
    **quantized.KERNELS,
    **rows.KERNELS,
    **windows.KERNELS,
    **moves.KERNELS,
}
# Operands that decide which part of the others a part of the output is made of.
_PLACES = {
    "CumSum": (1,),
    "CumProd": (1,),
    "Pad": (1, 3),
    "Slice": (1, 2, 3, 4),
    **{f"Reduce{name}": (1,) for name in REDUCTIONS},
}
# Operators on elements of which other operands hold one value a block or an axis.
_OF_BLOCKS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_DOMAINS = frozenset({"", "ai.onnx", INTERNAL_DOMAIN})


def evaluate(work: Work) -> Array:
    """The box's values in the type that they are held in (floats in float32, not yet rounded)."""
    if _is_placed_by_data(work) and work.box != whole(work.made.shape):
        return _whole(work)[tuple(slice(*ends) for ends in work.box)]
    kernel = _KERNELS.get(work.node.op) if work.node.domain in _DOMAINS else None
    with np.errstate(all="ignore"):
        values = kernel(work) if kernel is not None else None
        values = _by_reference(work) if values is None else values
    values = np.asarray(values)
    if values.size != prod(work.shape):
        raise ExecutionError(
            f"node {work.node.name} ({work.node.op}) makes {values.shape} of its inputs, the "
            f"model declares {work.made.shape}: {work.shape} of it was asked for"
        )
    return values.astype(work.dtype, copy=False).reshape(work.shape)


def _is_placed_by_data(work: Work) -> bool:
    """Whether an operand that says what goes where is known at run time only."""
    if work.node.domain not in _DOMAINS:
        return False
    deciding = _PLACES.get(work.node.op, ())
    return any(work.has(at) and work.node.inputs[at] not in work.small for at in deciding)


def _whole(work: Work) -> Array:
    """All of the output, once a run."""
    key = f"{work.node.name}:{work.output}"
    if key not in work.memo:
        work.memo[key] = (evaluate(replace(work, box=whole(work.made.shape))),)
    return work.memo[key][0]


def _by_reference(work: Work) -> Array:
    """An elementwise operator on the box's operands, any other as a whole.

    Where the box needs a part of an operand only, the rest, which may not be there yet, is zero.
    """
    operator = find(work.node.domain, work.node.op)
    is_elementwise = operator is not None and operator.kind is WorkKind.ELEMENTWISE
    if is_elementwise and work.node.op not in _OF_BLOCKS:
        given = [_part(work, at) if work.has(at) else None for at in _inputs(work)]
        return np.broadcast_to(run_node(work.node, given)[work.output], work.shape)
    at = tuple(slice(*ends) for ends in work.box)
    given_at = filter(work.has, _inputs(work))
    if any(work.part(index) != whole(work.type(index).shape) for index in given_at):
        given = [_padded(work, index) if work.has(index) else None for index in _inputs(work)]
        return run_node(work.node, given)[work.output][at]
    if work.node.name not in work.memo:
        given = [_padded(work, index) if work.has(index) else None for index in _inputs(work)]
        work.memo[work.node.name] = run_node(work.node, given)
    return work.memo[work.node.name][work.output][at]


def _part(work: Work, index: int) -> Array:
    """What the box needs of an operand, in the type by which the reference knows it."""
    values, dtype = work.operand(index), work.type(index).dtype
    return values.astype(numpy_dtype(dtype)) if dtype.is_narrow else values


def _padded(work: Work, index: int) -> Array:
    """What the box needs of an operand, amid zeros of its whole shape."""
    part = work.part(index)
    values = _part(work, index)
    result = np.zeros(work.type(index).shape, values.dtype)
    result[tuple(slice(*ends) for ends in part)] = values
    return result


def _inputs(work: Work) -> range:
    return range(len(work.node.inputs))
