"""Operators on quantised tensors become what they stand for: float operators amid Q and DQ.

ONNX has QLinearConv and QLinearMatMul; onnxruntime's quantiser writes more of them in its own
domain (onnxruntime, docs/ContribOperators.md). With one form for all, only one has to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from types import MappingProxyType

import numpy as np

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Call
from compiler.frontend.made import Expansion, Maker, Setting
from compiler.ir.dtypes import DType
from compiler.ir.graph import TensorType

MICROSOFT = "com.microsoft"

# The made calls have the meaning of this opset: the first whose Q and DQ take 16 bits.
_OPSET = 21

_QUANTISED = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32})


def is_quantised(call: Call) -> bool:
    """Whether the call is one to expand."""
    return (call.domain, call.op) in _FORMS


def stays(call: Call, types: Mapping[str, TensorType]) -> bool:
    """Whether it dequantises integers: folded, a product could not find them any more."""
    if call.op != "DequantizeLinear" or call.domain:
        return False
    given = types.get(call.inputs[0])
    return given is not None and given.dtype in _QUANTISED


def check_scales(call: Call, types: Mapping[str, TensorType]) -> None:
    """Raise `ModelError` where a Q or DQ has scales or zero points that its tensor cannot have."""
    if call.domain or call.op not in ("QuantizeLinear", "DequantizeLinear"):
        return
    value, *others = (name for name in call.inputs if name)
    block = call.attributes.get("block_size", 0)
    shapes = [types[name].shape for name in others]
    if not block and all(prod(shape) == 1 for shape in shapes):
        return
    wanted = _shape_of_scales(call, types[value].shape, block if isinstance(block, int) else 0)
    for name, shape in zip(others, shapes, strict=True):
        if shape != wanted and (block or prod(shape) != 1):
            raise ModelError(
                f"{call.label}: '{name}' has shape {_times(shape)}, the scales of '{value}' "
                f"({_times(types[value].shape)}) have {_times(wanted)}; name the axis along which "
                "they vary, or quantise per tensor"
            )


def _shape_of_scales(call: Call, shape: tuple[int, ...], block: int) -> tuple[int, ...]:
    """One for each element along the axis, or for each block of them."""
    axis = call.attributes.get("axis", 1)
    if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        raise ModelError(f"{call.label}: axis is {axis}, '{call.inputs[0]}' is {_times(shape)}")
    if not block:
        return (shape[axis],)
    blocks = -(-shape[axis] // block)
    return tuple(blocks if at == axis % len(shape) else dim for at, dim in enumerate(shape))


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def dequantised(call: Call, types: Mapping[str, TensorType]) -> Expansion:
    """The calls that the operator stands for; `types` holds those of the operands."""
    least, write = _FORMS[call.domain, call.op]
    if len(call.inputs) < least or not call.outputs:
        raise ModelError(
            f"{call.label} has {len(call.inputs)} inputs and {len(call.outputs)} outputs, the "
            f"operator takes {least} or more and 1"
        )
    form = _Form(replace(call, domain="", opset=_OPSET), types)
    write(form)
    return form.maker.expansion()


class _Form:
    """Collects the calls; operands are read as value, scale and zero point."""

    def __init__(self, call: Call, types: Mapping[str, TensorType]) -> None:
        self.call = call
        self.types = types
        self.maker = Maker(call)

    def input(self, index: int) -> str:
        """An operand's name; empty where it is absent."""
        return self.call.inputs[index] if index < len(self.call.inputs) else ""

    def value(self, at: int, axis: int | None = None) -> str:
        """The float value of the operands `at` to `at + 2`; scales may vary along an axis."""
        name, scale, zero = (self.input(at + offset) for offset in range(3))
        return self._dequantise(name, scale, zero, axis if self._extent(scale) > 1 else None)

    def bias(self, name: str, first: str, second: str, axis: int) -> str:
        """The float value of 32-bit sums: their scale is the product of the operands' scales."""
        if not name:
            return ""
        if self._extent(second) > 1:
            return self._dequantise(name, self.maker.op("Mul", (first, second)), "", axis)
        scale = self.maker.op("Mul", (self._scalar(first), self._scalar(second)))
        return self._dequantise(name, scale, "", None)

    def _dequantise(self, name: str, scale: str, zero: str, axis: int | None) -> str:
        if axis is None:
            scale, zero = self._scalar(scale), self._scalar(zero)
        given = tuple(item for item in (name, scale, zero) if item)
        settings: dict[str, Setting] = {} if axis is None else {"axis": axis}
        return self.maker.op("DequantizeLinear", given, attributes=settings)

    def result(self, value: str, at: int) -> None:
        """Quantise a value by the operands `at` and `at + 1` into the call's result."""
        scale, zero = self._scalar(self.input(at)), self._scalar(self.input(at + 1))
        given = tuple(item for item in (value, scale, zero) if item)
        self.maker.op("QuantizeLinear", given, self.call.outputs[0])

    def op(
        self,
        op: str,
        *inputs: str,
        output: str = "",
        settings: Mapping[str, Setting] = MappingProxyType({}),
    ) -> str:
        """A float operator; absent inputs at its end are left out."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        return self.maker.op(op, inputs, output, settings)

    def setting(self, name: str, default: Setting) -> Setting:
        """An attribute of the call."""
        value = self.call.attributes.get(name, default)
        return value if isinstance(value, int | float | str | tuple) else default  # type: ignore[return-value]

    def settings(self, *names: str) -> dict[str, Setting]:
        """Those of the call's attributes that are given."""
        return {name: self.setting(name, 0) for name in names if name in self.call.attributes}

    def _extent(self, name: str) -> int:
        return self.types[name].elements

    def _scalar(self, name: str) -> str:
        """A scale or zero point of one element without dims, as per-tensor ones must be."""
        if name not in self.types or not self.types[name].shape:
            return name
        if self._extent(name) != 1:
            raise UnsupportedError(
                f"{self.call.label}: '{name}' has {self._extent(name)} elements where one is "
                "supported; quantise it per tensor"
            )
        no_dims = self.maker.constant(np.empty(0, dtype=np.int64))
        return self.maker.op("Reshape", (name, no_dims))


_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _conv(form: _Form) -> None:
    bias = form.bias(form.input(8), form.input(1), form.input(4), 0)
    value = form.op("Conv", form.value(0), form.value(3, 0), bias, settings=form.settings(*_CONV))
    form.result(value, 6)


def _matmul(form: _Form) -> None:
    rank = len(form.types[form.input(3)].shape)
    form.result(form.op("MatMul", form.value(0), form.value(3, rank - 1)), 6)


def _gemm(form: _Form) -> None:
    turned = form.setting("transB", 0)
    bias = form.bias(form.input(6), form.input(1), form.input(4), 0)
    second = form.value(3, 0 if turned else 1)
    # Of alpha and beta, QGemm has alpha only, and its sums are scaled by it as a whole.
    settings = {**form.settings("transA", "transB", "alpha")}
    if bias and "alpha" in settings:
        settings["beta"] = settings["alpha"]
    quantises = bool(form.input(7))
    output = "" if quantises else form.call.outputs[0]
    value = form.op("Gemm", form.value(0), second, bias, output=output, settings=settings)
    if quantises:
        form.result(value, 7)


def _binary(op: str) -> Callable[[_Form], None]:
    return lambda form: form.result(form.op(op, form.value(0), form.value(3)), 6)


def _unary(op: str, *settings: str) -> Callable[[_Form], None]:
    return lambda form: form.result(
        form.op(op, form.value(0), settings=form.settings(*settings)), 3
    )


def _pool(op: str) -> Callable[[_Form], None]:
    """A pool; images may have their channels last."""

    def made(form: _Form) -> None:
        value = form.value(0)
        last = bool(form.setting("channels_last", 0))
        rank = len(form.types[form.input(0)].shape)
        if last:
            value = form.op(
                "Transpose", value, settings={"perm": (0, rank - 1, *range(1, rank - 1))}
            )
        names = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
        value = form.op(op, value, settings=form.settings(*names) if op == "AveragePool" else {})
        if last:
            value = form.op("Transpose", value, settings={"perm": (0, *range(2, rank), 1)})
        form.result(value, 3)

    return made


def _concat(form: _Form) -> None:
    count = (len(form.call.inputs) - 2) // 3
    parts = tuple(form.value(2 + 3 * at) for at in range(count))
    form.result(form.op("Concat", *parts, settings={"axis": form.setting("axis", 0)}), 0)


def _softmax(form: _Form) -> None:
    """Since opset 13 along one axis; before, over all axes from it on."""
    rank = len(form.types[form.input(0)].shape)
    axis = form.setting("axis", -1)
    along = axis % rank if isinstance(axis, int) else rank - 1
    if form.setting("opset", 13) in range(13) and along != rank - 1:
        raise UnsupportedError(
            f"{form.call.label}: a softmax over several axes is not supported quantised; "
            "keep this node in float"
        )
    form.result(form.op("Softmax", form.value(0), settings={"axis": along}), 3)


def _where(form: _Form) -> None:
    form.result(form.op("Where", form.input(0), form.value(1), form.value(4)), 7)


def _renamed(form: _Form) -> None:
    """Q and DQ of onnxruntime's domain, which had 16 bits before ONNX did."""
    given = tuple(item for item in form.call.inputs if item)
    form.op(form.call.op, *given, output=form.call.outputs[0], settings=form.settings("axis"))


# How many inputs it has at least, and what writes the form.
_FORMS: Mapping[tuple[str, str], tuple[int, Callable[[_Form], None]]] = {
    ("", "QLinearConv"): (8, _conv),
    ("", "QLinearMatMul"): (8, _matmul),
    (MICROSOFT, "QLinearConv"): (8, _conv),
    (MICROSOFT, "QGemm"): (6, _gemm),
    (MICROSOFT, "QLinearAdd"): (7, _binary("Add")),
    (MICROSOFT, "QLinearMul"): (7, _binary("Mul")),
    (MICROSOFT, "QLinearSigmoid"): (4, _unary("Sigmoid")),
    (MICROSOFT, "QLinearLeakyRelu"): (4, _unary("LeakyRelu", "alpha")),
    (MICROSOFT, "QLinearSoftmax"): (5, _softmax),
    (MICROSOFT, "QLinearAveragePool"): (4, _pool("AveragePool")),
    (MICROSOFT, "QLinearGlobalAveragePool"): (5, _pool("GlobalAveragePool")),
    (MICROSOFT, "QLinearConcat"): (5, _concat),
    (MICROSOFT, "QLinearWhere"): (9, _where),
    (MICROSOFT, "QuantizeLinear"): (2, _renamed),
    (MICROSOFT, "DequantizeLinear"): (2, _renamed),
}
