"""Products of quantised operands become products of integers.

`aic::QuantizedConv` and `aic::QuantizedMatMul` take operands `x`, `w` of 8 bits, and optionally
`bias` (int32), `x_zero_point` (a scalar known at run time) and `x_scale` (likewise). They sum
(x - zero point) * (w - zero point) + bias exactly, and give

    int32       the sum
    float       y = sum * scale * x_scale + offset
    8 bits      y, limited to `low` and `high`, quantised by `y_scale` and `y_zero_point`

Attributes beside those of Conv: `x_zero_point`; `w_zero_point`, `scale` and `offset`, one number
or one for each output channel; `low`, `high`, `y_scale`, `y_zero_point`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from compiler.ir.dtypes import DType
from compiler.ir.graph import Array, AttributeValue, Node, TensorType, value_of
from compiler.operators import INTERNAL_DOMAIN
from compiler.passes.arithmetic import clipped, operands
from compiler.passes.channels import ChannelVector, uniform, vector_along
from compiler.passes.edit import GraphEdit, Rule
from compiler.passes.quantized import (
    BYTES,
    Dequantised,
    Scheme,
    dequantising,
    scheme_of,
    transposed,
)

_LIMITS_ARE_INPUTS = 11
"""Since this opset, Clip has its limits as inputs (ONNX changelog)."""

PRODUCTS = ("QuantizedConv", "QuantizedMatMul")

_SAME_SCALE = 1e-5
"""assumed: a bias is quantised by the product of two float32 scales, rounded once or twice."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand's integers and what they stand for."""

    name: str
    scheme: Scheme


@dataclass(frozen=True, slots=True)
class _Bias:
    """What is added: integers to the sum, or floats to the result."""

    name: str = ""
    offset: tuple[float, ...] = ()


def channel_axis(edit: GraphEdit, node: Node) -> int:
    """The output axis of a product's channels."""
    return 1 if node.op == "QuantizedConv" else len(edit.shape(node.outputs[0])) - 1


def _operand(edit: GraphEdit, name: str) -> _Operand | None:
    before = dequantising(edit, name)
    if before is None or edit.type(before.inputs[0]).dtype not in BYTES:
        return None
    return _Operand(before.inputs[0], scheme_of(before))


def _conv(edit: GraphEdit, node: Node) -> None:
    first, second = (_operand(edit, name) for name in node.inputs[:2])
    if first is None or second is None or not first.scheme.is_uniform:
        return
    if not second.scheme.is_uniform and second.scheme.axis != 0:
        return
    bias = _bias(edit, node, _scales(first, second), node.inputs[2:3])
    if bias is not None:
        edit.substitute(node, _product(node, "QuantizedConv", first, second, bias))


def _matmul(edit: GraphEdit, node: Node) -> None:
    first, second = (_operand(edit, name) for name in node.inputs[:2])
    if first is None or second is None or not first.scheme.is_uniform:
        return
    rank = len(edit.shape(second.name))
    if not second.scheme.is_uniform and (rank < 2 or second.scheme.axis != rank - 1):
        return
    edit.substitute(node, _product(node, "QuantizedMatMul", first, second, _Bias()))


def _gemm(edit: GraphEdit, node: Node) -> None:
    first, second = (_operand(edit, name) for name in node.inputs[:2])
    if first is None or second is None or not first.scheme.is_uniform:
        return
    turned = node.int("transB", 0)
    if not second.scheme.is_uniform and second.scheme.axis != (0 if turned else 1):
        return
    alpha = node.float("alpha", 1.0)
    scales = _scales(first, second)
    # Integers can be added to the sum only where it is scaled as they are.
    whole = alpha == node.float("beta", 1.0) == 1.0
    bias = _bias(edit, node, scales if whole else (), node.inputs[2:3], node.float("beta", 1.0))
    if bias is None:
        return
    extras: list[Node] = []
    if node.int("transA", 0):
        first = replace(first, name=_turned(edit, node, first.name, extras))
    if turned:
        second = replace(second, name=_turned(edit, node, second.name, extras))
    product = _product(node, "QuantizedMatMul", first, second, bias, alpha)
    edit.substitute(node, *extras, product)


def _turned(edit: GraphEdit, node: Node, name: str, extras: list[Node]) -> str:
    """A matrix transposed: a constant by itself, another by a node more."""
    constant = edit.constant(name)
    if constant is not None:
        return transposed(edit, name, constant, (1, 0))
    type_ = edit.type(name)
    made = edit.add_value(f"{name}.transposed", TensorType(type_.dtype, type_.shape[::-1]))
    extras.append(
        Node(f"{node.name}.transpose.{len(extras)}", "Transpose", "", node.opset, (name,), (made,))
    )
    return made


def _scales(first: _Operand, second: _Operand) -> tuple[float, ...]:
    return tuple(first.scheme.scales[0] * scale for scale in second.scheme.scales)


def _product(
    node: Node, op: str, first: _Operand, second: _Operand, bias: _Bias, factor: float = 1.0
) -> Node:
    kept = {
        name: value
        for name, value in node.attributes.items()
        if op == "QuantizedConv" and name not in ("x_zero_point", "w_zero_point")
    }
    attributes: dict[str, AttributeValue] = {
        **kept,
        "x_zero_point": first.scheme.zeros[0],
        "w_zero_point": second.scheme.zeros,
        "scale": tuple(scale * factor for scale in _scales(first, second)),
        **({"offset": bias.offset} if bias.offset else {}),
    }
    inputs = (first.name, second.name, *((bias.name,) if bias.name else ()))
    return _internal(node, op, inputs, attributes)


def _internal(
    node: Node, op: str, inputs: tuple[str, ...], attributes: Mapping[str, AttributeValue]
) -> Node:
    return replace(
        node, op=op, domain=INTERNAL_DOMAIN, opset=1, inputs=inputs, attributes=attributes
    )


def _bias(
    edit: GraphEdit,
    node: Node,
    scales: tuple[float, ...],
    names: tuple[str, ...],
    beta: float = 1.0,
) -> _Bias | None:
    """The bias of a product; `None` where it is none that varies by channel only.

    `scales` are those of the sum, empty where integers cannot be added to it.
    """
    name = "".join(names)
    if not name:
        return _Bias()
    axis = 1 if node.op == "Conv" else len(edit.shape(node.outputs[0])) - 1
    channels = edit.shape(node.outputs[0])[axis]
    before = dequantising(edit, name)
    if before is not None and _adds_to_sum(edit, before, scales, channels):
        return _Bias(before.inputs[0])
    values = _floats(edit, name, before)
    if (
        values is None
        or values.size not in (1, channels)
        or values.shape[-1:] not in ((), (1,), (channels,))
    ):
        return None
    offset = values.reshape(-1).astype(np.float64) * beta
    return _Bias(offset=tuple(float(value) for value in offset))


def _adds_to_sum(edit: GraphEdit, before: Node, scales: tuple[float, ...], channels: int) -> bool:
    """Whether a bias is made of integers in the scale of the sum."""
    type_, scheme = edit.type(before.inputs[0]), scheme_of(before)
    if type_.dtype is not DType.INT32 or any(scheme.zeros) or not scales:
        return False
    if type_.shape != (channels,) or edit.constant(before.inputs[0]) is None:
        return False
    return bool(np.allclose(scheme.scales, scales, rtol=_SAME_SCALE, atol=0.0))


def _floats(edit: GraphEdit, name: str, before: Node | None) -> Array | None:
    constant = edit.constant(before.inputs[0] if before is not None else name)
    if constant is None:
        return None
    if before is not None:
        return Dequantised(constant, scheme_of(before))()
    return value_of(constant) if constant.type.dtype.is_float else None


def _matmul_integer(edit: GraphEdit, node: Node) -> None:
    _integer(edit, node, "QuantizedMatMul")


def _conv_integer(edit: GraphEdit, node: Node) -> None:
    _integer(edit, node, "QuantizedConv")


def _integer(edit: GraphEdit, node: Node, op: str) -> None:
    """ConvInteger and MatMulInteger: the first operand's zero point may come at run time."""
    if any(edit.type(name).dtype not in BYTES for name in node.inputs[:2]):
        return
    first = (*node.inputs, "", "")[2]
    second = _zero_points(edit, (*node.inputs, "", "")[3])
    channels = edit.shape(node.outputs[0])[1 if op == "QuantizedConv" else -1]
    if (first and edit.type(first).elements != 1) or len(second) not in (1, channels):
        return
    runs = bool(first) and edit.constant(first) is None
    attributes: dict[str, AttributeValue] = {
        **node.attributes,
        "x_zero_point": 0 if runs else _zero_points(edit, first)[0],
        "w_zero_point": second,
    }
    inputs = (*node.inputs[:2], *(("", first) if runs else ()))
    edit.substitute(node, _internal(node, op, inputs, attributes))


def _zero_points(edit: GraphEdit, name: str) -> tuple[int, ...]:
    """Zero points by channel; empty where they are not known."""
    if not name:
        return (0,)
    return edit.ints(name) or ()


def _scale(edit: GraphEdit, node: Node) -> None:
    """The factor that makes a float of a sum, by channel, by a number known at run time, or both.

    A product's float result takes a constant factor likewise.
    """
    for value, factor in operands(node):
        product = _sum_before(edit, value)
        if product is None:
            if _rescaled(edit, node, value, factor):
                return
            continue
        found = _factors(edit, node.outputs[0], factor, channel_axis(edit, product))
        if found is not None:
            _give_scale(edit, node, product, *found)
            return


def _rescaled(edit: GraphEdit, node: Node, value: str, factor: str) -> bool:
    """Multiply a product's float result by a constant; whether it could be done."""
    product = edit.producer(value, *PRODUCTS) if edit.single_use(value) else None
    if product is None or edit.shape(value) != edit.shape(node.outputs[0]):
        return False
    known = vector_along(edit, factor, value, channel_axis(edit, product))
    if known is None or not edit.is_float(value):
        return False
    attributes = {
        **product.attributes,
        **{
            name: _shortest(np.asarray(product.attributes[name]) * known.load())
            for name in ("scale", "offset")
            if name in product.attributes
        },
    }
    edit.substitute(node, replace(product, outputs=node.outputs, attributes=attributes))
    return True


def _shortest(values: Array) -> tuple[float, ...]:
    """Numbers by channel; one for all where they are equal."""
    flat = [float(value) for value in values.reshape(-1)]
    return (flat[0],) if len(set(flat)) == 1 else tuple(flat)


def _sum_before(edit: GraphEdit, value: str) -> Node | None:
    """The product whose int32 sum a Cast makes a float of, both for one reader only."""
    cast = edit.producer(value, "Cast") if edit.single_use(value) else None
    if cast is None or not edit.single_use(cast.inputs[0]):
        return None
    product = edit.producer(cast.inputs[0], *PRODUCTS)
    is_sum = product is not None and edit.type(product.outputs[0]).dtype is DType.INT32
    return product if is_sum else None


def _factors(
    edit: GraphEdit, value: str, factor: str, axis: int
) -> tuple[ChannelVector, str] | None:
    """A factor as numbers by channel and a scalar known at run time (or none)."""
    known = vector_along(edit, factor, value, axis)
    if known is not None:
        return known, ""
    both = edit.producer(factor, "Mul")
    for scalar, rest in operands(both) if both is not None else ():
        known = vector_along(edit, rest, value, axis)
        if known is not None and edit.type(scalar).elements == 1:
            return known, scalar
    if edit.type(factor).elements == 1 and edit.is_float(factor):
        return uniform(1.0, 1), factor
    return None


def _give_scale(
    edit: GraphEdit, node: Node, product: Node, known: ChannelVector, scalar: str
) -> None:
    inputs = product.inputs
    if scalar:
        inputs = (*(*inputs, "", "", "", "")[:4], scalar)
    attributes = {**product.attributes, "scale": _shortest(known.load())}
    edit.substitute(
        node, replace(product, inputs=inputs, outputs=node.outputs, attributes=attributes)
    )


def _add(edit: GraphEdit, node: Node) -> None:
    """What is added to a product's float result by channel."""
    for value, name in operands(node):
        product = edit.producer(value, *PRODUCTS) if edit.single_use(value) else None
        if product is None or not edit.is_float(value):
            continue
        shift = vector_along(edit, name, value, channel_axis(edit, product))
        if shift is not None and edit.shape(value) == edit.shape(node.outputs[0]):
            old = product.attributes.get("offset", (0.0,))
            assert isinstance(old, tuple)
            total = shift.load() + np.asarray(old, np.float64)
            attributes = {**product.attributes, "offset": tuple(float(v) for v in total)}
            edit.substitute(node, replace(product, outputs=node.outputs, attributes=attributes))
            return


def _requantize(edit: GraphEdit, node: Node) -> None:
    """A product gives 8 bits where nothing but a Quantize reads it; a ReLU between is a limit."""
    scheme, value = scheme_of(node), node.inputs[0]
    if not scheme.is_uniform or edit.type(node.outputs[0]).dtype not in BYTES:
        return
    low, high = -np.inf, np.inf
    while edit.single_use(value) and (limit := edit.producer(value, "Relu", "Clip")) is not None:
        ends = _ends(edit, limit)
        if ends is None:
            return
        # What it gives passes the limits that were met before, which come after it.
        low, high = (min(max(end, low), high) for end in ends)
        value = limit.inputs[0]
    product = edit.producer(value, *PRODUCTS) if edit.single_use(value) else None
    if product is None or not edit.is_float(value):
        return
    attributes: dict[str, AttributeValue] = {
        **product.attributes,
        "y_scale": scheme.scales[0],
        "y_zero_point": scheme.zeros[0],
        **({"low": float(low)} if low > -np.inf else {}),
        **({"high": float(high)} if high < np.inf else {}),
    }
    edit.substitute(node, replace(product, outputs=node.outputs, attributes=attributes))


def _ends(edit: GraphEdit, limit: Node) -> tuple[float, float] | None:
    if limit.op == "Relu":
        return 0.0, np.inf
    if limit.opset >= _LIMITS_ARE_INPUTS and any(
        name and edit.scalar(name) is None for name in limit.inputs[1:]
    ):
        return None
    _, low, high = clipped(edit, limit)
    return (-np.inf if low is None else low), (np.inf if high is None else high)


RULES: dict[str, Rule] = {
    "Conv": _conv,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "ConvInteger": _conv_integer,
    "MatMulInteger": _matmul_integer,
    "Mul": _scale,
    "Add": _add,
    "Quantize": _requantize,
}
