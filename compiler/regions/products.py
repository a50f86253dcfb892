"""Products: each result needs a row of one operand and a column of the other."""

from __future__ import annotations

from compiler.regions.asked import Asked
from compiler.regions.box import Box, broadcast


def matmul(asked: Asked) -> Box | None:
    """MatMul, and MatMulBias with one value per column."""
    if asked.index > 1:
        return broadcast(asked.box, asked.shape)
    first, second = asked.shape_of(0), asked.shape_of(1)
    box = asked.box
    columns = box[-1] if len(second) > 1 else (0, 1)
    lead = box[:-1] if len(second) > 1 else box
    rows = lead[-1] if len(first) > 1 else (0, 1)
    batch = lead[:-1] if len(first) > 1 else lead
    shape = asked.shape
    if len(shape) == 1:
        return ((0, shape[0]),)
    own = broadcast(batch, shape[:-2])
    return (*own, rows, (0, shape[-1])) if asked.index == 0 else (*own, (0, shape[-2]), columns)


def gemm(asked: Asked) -> Box | None:
    """Gemm with either operand transposed."""
    rows, columns = asked.box
    if asked.index > 1:
        return broadcast(asked.box, asked.shape)
    turned = asked.node.int("transA" if asked.index == 0 else "transB", 0)
    inner = (0, asked.shape[0 if (asked.index == 0) == bool(turned) else 1])
    if asked.index == 0:
        return (inner, rows) if turned else (rows, inner)
    return (columns, inner) if turned else (inner, columns)


def einsum(asked: Asked) -> Box | None:
    """An explicit equation: letters of the result keep their range, the others are summed."""
    equation = asked.node.str("equation", "").replace(" ", "")
    left, arrow, result = equation.partition("->")
    if not arrow or "." in equation:
        return None
    ranges = dict(zip(result, asked.box, strict=True))
    term = left.split(",")[asked.index]
    return tuple(
        ranges.get(letter, (0, extent)) for letter, extent in zip(term, asked.shape, strict=True)
    )
