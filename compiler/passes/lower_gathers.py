"""Cut a run of positions out of an activation by Slice where the model gathers them.

A gather picks element by element; the positions that exporters select (one head of a packed
projection, the first token) are known and adjacent, so a strided copy does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Constant, Graph, Node, TensorType
from compiler.operators import INTERNAL_DOMAIN
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite

_SLICE_SINCE = 13
"""Opset in which Slice took its present form: bounds and axes are inputs, of any element type."""


@dataclass(frozen=True, slots=True)
class LowerGathers:
    """A Gather from a constant table, or by computed or scattered indices, stays."""

    name: ClassVar[str] = "lower_gathers"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite each Gather by itself."""
        return rewrite(graph, {"Gather": _lower})


def _lower(edit: GraphEdit, node: Node) -> None:
    data, out = node.inputs[0], node.outputs[0]
    shape = edit.shape(data)
    axis = node.int("axis", 0) % len(shape)
    run = _run(edit.ints(node.inputs[1]), shape[axis])
    if run is None or edit.constant(data) is not None:
        return
    cut = (*shape[:axis], len(run), *shape[axis + 1 :])
    sliced = _slice(edit, node, run, axis)
    if cut == edit.shape(out):
        edit.substitute(node, sliced)
        return
    value = edit.add_value(f"{out}.cut", TensorType(edit.type(out).dtype, cut))
    before = replace(sliced, name=f"{node.name}.cut", outputs=(value,))
    view = replace(
        node, op="View", domain=INTERNAL_DOMAIN, opset=1, inputs=(value,), attributes={}
    )
    edit.substitute(node, before, view)


def _run(indices: tuple[int, ...] | None, extent: int) -> range | None:
    """The adjacent positions that constant indices pick in order; they may count from the end."""
    if not indices:
        return None
    picked = [index % extent for index in indices]
    run = range(picked[0], picked[0] + len(picked))
    return run if picked == list(run) else None


def _slice(edit: GraphEdit, node: Node, run: range, axis: int) -> Node:
    bounds = (_integer(edit, node, value) for value in (run.start, run.stop, axis))
    return replace(
        node,
        op="Slice",
        opset=max(node.opset, _SLICE_SINCE),
        inputs=(node.inputs[0], *bounds),
        attributes={},
    )


def _integer(edit: GraphEdit, node: Node, value: int) -> str:
    constant = Constant(TensorType(DType.INT64, (1,)), lambda: np.array([value], dtype=np.int64))
    return edit.add_constant(f"{node.outputs[0]}.bound", constant, key=f"int64 {value}")
