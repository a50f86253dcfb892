"""The values of a box of a node's output: by an own kernel, else by ONNX's reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.execute.kernels import elementwise, moves, products, rows, windows
from compiler.execute.work import Work
from compiler.frontend.reference import run_node
from compiler.ir.graph import Array
from compiler.operators import INTERNAL_DOMAIN, WorkKind, find

_KERNELS: dict[str, Callable[[Work], Array | None]] = {
    **elementwise.KERNELS,
    **products.KERNELS,
    **rows.KERNELS,
    **windows.KERNELS,
    **moves.KERNELS,
}
_DOMAINS = frozenset({"", "ai.onnx", INTERNAL_DOMAIN})


def evaluate(work: Work) -> Array:
    """The box's values in the type that they are held in (floats in float32, not yet rounded)."""
    kernel = _KERNELS.get(work.node.op) if work.node.domain in _DOMAINS else None
    with np.errstate(all="ignore"):
        values = kernel(work) if kernel is not None else None
        values = _by_reference(work) if values is None else values
    return np.asarray(values).astype(work.dtype, copy=False).reshape(work.shape)


def _by_reference(work: Work) -> Array:
    """An elementwise operator on the box's operands, any other as a whole, once a run."""
    operator = find(work.node.domain, work.node.op)
    if operator is not None and operator.kind is WorkKind.ELEMENTWISE:
        given = [work.operand(at) if work.has(at) else None for at in _inputs(work)]
        return np.broadcast_to(run_node(work.node, given)[work.output], work.shape)
    if work.node.name not in work.memo:
        given = [work.all_of(at) if work.has(at) else None for at in _inputs(work)]
        work.memo[work.node.name] = run_node(work.node, given)
    return work.memo[work.node.name][work.output][tuple(slice(*ends) for ends in work.box)]


def _inputs(work: Work) -> range:
    return range(len(work.node.inputs))
