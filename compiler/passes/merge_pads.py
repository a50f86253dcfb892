"""Let a convolution pad its input itself, instead of a Pad with zeros before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.ir.graph import Graph, Node
from compiler.passes.base import PassResult
from compiler.passes.edit import GraphEdit, rewrite
from compiler.passes.remove_identities import pads_of


@dataclass(frozen=True, slots=True)
class MergePads:
    """Where something else reads the padded tensor too, the Pad stays for that."""

    name: ClassVar[str] = "merge_pads"

    def run(self, graph: Graph) -> PassResult:
        """Merge a Pad of spatial axes into each Conv that reads it."""
        return rewrite(graph, {"Conv": _merge})


def _merge(edit: GraphEdit, node: Node) -> None:
    pad = edit.producer(node.inputs[0], "Pad")
    added = _zeros_around(edit, pad) if pad is not None else None
    auto_pad = node.str("auto_pad", "NOTSET")
    if pad is None or added is None or auto_pad not in ("NOTSET", "VALID"):
        return
    own = node.ints("pads") if auto_pad == "NOTSET" else ()
    old = own or (0,) * len(added)
    attributes = {**node.attributes, "auto_pad": "NOTSET"}
    attributes["pads"] = tuple(a + b for a, b in zip(old, added, strict=True))
    merged = replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)
    edit.substitute(node, merged)


def _zeros_around(edit: GraphEdit, pad: Node) -> tuple[int, ...] | None:
    """Zeros before and after each spatial axis, in Conv's order; `None` if it is not that."""
    pads = _all_axes(edit, pad)
    if pads is None or pad.str("mode", "constant") != "constant" or _fill(edit, pad) != 0.0:
        return None
    rank = len(pads) // 2
    before, after = pads[:rank], pads[rank:]
    if min(pads) < 0 or any((*before[:2], *after[:2])):
        return None
    return before[2:] + after[2:]


def _fill(edit: GraphEdit, pad: Node) -> float | None:
    if len(pad.inputs) > 2 and pad.inputs[2]:
        return edit.scalar(pad.inputs[2])
    return pad.float("value", 0.0)


def _all_axes(edit: GraphEdit, pad: Node) -> tuple[int, ...] | None:
    """A Pad's amounts for every axis of its input: all before, then all after."""
    pads = pads_of(edit, pad)
    if pads is None or len(pad.inputs) < 4 or not pad.inputs[3]:
        return pads
    axes, rank = edit.ints(pad.inputs[3]), len(edit.shape(pad.inputs[0]))
    if axes is None:
        return None
    spread = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        spread[axis % rank] = pads[i]
        spread[axis % rank + rank] = pads[i + len(axes)]
    return tuple(spread)
