"""The rules by operator."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.ir.graph import Node, TensorType
from compiler.operators import INTERNAL_DOMAIN, WorkKind, find
from compiler.regions import moves, products, quantized, rows, windows
from compiler.regions.asked import Asked, Rule
from compiler.regions.box import Box, broadcast

REDUCTIONS = ("Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")

_RULES: dict[str, Rule] = {
    "MatMul": products.matmul,
    "MatMulBias": products.matmul,
    "Gemm": products.gemm,
    "Einsum": products.einsum,
    "QuantizedMatMul": quantized.matmul,
    "MatMulInteger": quantized.matmul_integer,
    "QuantizedConv": quantized.conv,
    "ConvInteger": quantized.conv_integer,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "MaxPool": windows.pool,
    "AveragePool": windows.pool,
    "LpPool": windows.pool,
    "GlobalAveragePool": windows.global_pool,
    "GlobalMaxPool": windows.global_pool,
    "GlobalLpPool": windows.global_pool,
    "Resize": windows.resize,
    "Upsample": windows.resize,
    "GridSample": windows.grid_sample,
    "DepthToSpace": windows.depth_to_space,
    "SpaceToDepth": windows.space_to_depth,
    "Softmax": rows.softmax,
    "LogSoftmax": rows.softmax,
    "Hardmax": rows.softmax,
    "LayerNormalization": rows.layer_norm,
    "RMSNormalization": rows.layer_norm,
    "InstanceNormalization": rows.instance_norm,
    "GroupNormalization": rows.group_norm,
    "BatchNormalization": rows.batch_norm,
    "LRN": rows.lrn,
    "LpNormalization": rows.along_axis(-1),
    "MeanVarianceNormalization": rows.mean_variance,
    "ArgMax": rows.arg_reduce,
    "ArgMin": rows.arg_reduce,
    "CumSum": rows.cumulative,
    "TopK": rows.along_axis(-1),
    "Transpose": moves.transpose,
    "Concat": moves.concat,
    "Split": moves.split,
    "Slice": moves.slice_,
    "Pad": moves.pad,
    "Expand": moves.expand,
    "Tile": moves.tile,
    "Gather": moves.gather,
    "GatherElements": moves.gather_elements,
    "Trilu": moves.same,
    "QuantizeLinear": moves.same,
    "DequantizeLinear": moves.same,
    "Identity": moves.reshape,
    "Dropout": moves.reshape,
    "Reshape": moves.reshape,
    "Flatten": moves.reshape,
    "Squeeze": moves.reshape,
    "Unsqueeze": moves.reshape,
    "View": moves.reshape,
    **{f"Reduce{name}": rows.reduce for name in REDUCTIONS},
}
_DOMAINS = frozenset({"", "ai.onnx", INTERNAL_DOMAIN})


def needed_by_rule(
    node: Node,
    types: Mapping[str, TensorType],
    index: int,
    box: Box,
    output: int,
    small: Mapping[str, tuple[int, ...]],
) -> Box | None:
    """The rule's answer; `None` where there is no rule, or it has none."""
    rule = _RULES.get(node.op) if node.domain in _DOMAINS else None
    if rule is not None:
        return rule(Asked(node, types, small, index, box, output))
    row = find(node.domain, node.op)
    if row is not None and row.kind is WorkKind.ELEMENTWISE:
        return broadcast(box, types[node.inputs[index]].shape)
    return None
