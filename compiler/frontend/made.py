"""Calls that the importer itself makes, in the opset of the call that they replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from onnx import NodeProto, helper

from compiler.frontend.calls import Call
from compiler.frontend.tensors import literal
from compiler.ir.graph import Array, Constant

# Since this opset, Unsqueeze, Squeeze and Split take axes or sizes as an operand.
_OPERAND_OPSET = 13


Setting = int | float | str | tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """Calls, in order, and constants that take the place of a call."""

    calls: tuple[Call, ...]
    constants: Mapping[str, Constant] = field(default_factory=lambda: MappingProxyType({}))


class Maker:
    """Collects the calls that take the place of `call`; names of values begin with its name."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.calls: list[Call] = []
        self.constants: dict[str, Constant] = {}

    def expansion(self) -> Expansion:
        """All that was made."""
        return Expansion(tuple(self.calls), self.constants)

    def constant(self, array: Array) -> str:
        """A constant; gives its name."""
        name = self._fresh("constant")
        self.constants[name] = literal(array)
        return name

    def op(
        self,
        op: str,
        inputs: tuple[str, ...],
        output: str = "",
        attributes: Mapping[str, Setting] | None = None,
    ) -> str:
        """A call with one result; gives the result's name, `output` when that is not empty."""
        result = output or self._fresh(op)
        self._add(op, inputs, (result,), attributes or {})
        return result

    def unsqueeze(self, value: str, axis: int, output: str = "") -> str:
        """The value with an axis of extent 1 more."""
        return self._with_ints("Unsqueeze", value, "axes", (axis,), output)

    def squeeze(self, value: str, axis: int) -> str:
        """The value without an axis of extent 1."""
        return self._with_ints("Squeeze", value, "axes", (axis,), "")

    def reduce_sum(self, value: str, axes: tuple[int, ...], output: str = "") -> str:
        """The value summed over some axes, which go away."""
        if self.call.opset < _OPERAND_OPSET:
            attributes: Mapping[str, Setting] = {"axes": axes, "keepdims": 0}
            return self.op("ReduceSum", (value,), output, attributes)
        return self.op("ReduceSum", (value, self._ints(axes)), output, {"keepdims": 0})

    def split(self, value: str, sizes: tuple[int, ...], axis: int) -> tuple[str, ...]:
        """Parts of the value along an axis."""
        results = tuple(self._fresh("Split") + f"_{at}" for at in range(len(sizes)))
        if self.call.opset < _OPERAND_OPSET:
            self._add("Split", (value,), results, {"axis": axis, "split": sizes})
        else:
            self._add("Split", (value, self._ints(sizes)), results, {"axis": axis})
        return results

    def stack(self, values: tuple[str, ...], axis: int, output: str = "") -> str:
        """The values one after another along a new axis."""
        rows = tuple(self.unsqueeze(value, axis) for value in values)
        return self.op("Concat", rows, output, {"axis": axis})

    def _with_ints(
        self, op: str, value: str, name: str, ints: tuple[int, ...], output: str
    ) -> str:
        if self.call.opset < _OPERAND_OPSET:
            return self.op(op, (value,), output, {name: ints})
        return self.op(op, (value, self._ints(ints)), output)

    def _ints(self, values: tuple[int, ...]) -> str:
        return self.constant(np.asarray(values, dtype=np.int64))

    def _add(
        self,
        op: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        attributes: Mapping[str, Setting],
    ) -> None:
        protos = [helper.make_attribute(name, value) for name, value in attributes.items()]
        content = NodeProto(attribute=protos).SerializeToString()
        name = f"{self.call.name}/{op}_{len(self.calls)}"
        opset = self.call.opset
        self.calls.append(Call(name, op, "", opset, inputs, outputs, attributes, content))

    def _fresh(self, hint: str) -> str:
        base = self.call.outputs[0] or self.call.name
        return f"{base}/{hint}_{len(self.calls)}_{len(self.constants)}"
