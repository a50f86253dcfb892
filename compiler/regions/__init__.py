"""Which part of an input a part of an output depends on, for every operator.

The schedule asks to find what a tile must wait for and what cores must exchange; the values of a
tile are computed from just that part. A superset is always right, only slower.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.ir.graph import Node, TensorType
from compiler.regions.box import Box, whole
from compiler.regions.table import REDUCTIONS, needed_by_rule

__all__ = ["REDUCTIONS", "Box", "needed", "whole"]


def needed(
    node: Node,
    types: Mapping[str, TensorType],
    index: int,
    box: Box,
    output: int = 0,
    small: Mapping[str, tuple[int, ...]] | None = None,
) -> Box:
    """The box of input `index` that a box of an output of `node` depends on.

    `types` covers the node's inputs and outputs. `small` gives the values of small integer
    constants by name; operators whose starts, axes or pads are not in it get the whole input. So
    do operators without a rule.
    """
    found = needed_by_rule(node, types, index, box, output, small or {})
    return whole(types[node.inputs[index]].shape) if found is None else found
