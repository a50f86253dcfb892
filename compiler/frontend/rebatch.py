"""Changing the batch size of a model that was exported with a fixed one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.batch_axis import Use, batch_axis
from compiler.frontend.calls import Call
from compiler.frontend.tensors import literal
from compiler.frontend.walk import Bound, Walk
from compiler.ir.graph import Array, Constant, TensorType, value_of

# Which operand says the shape of the result outright, for operators that have one.
_SHAPE_OPERANDS = {"Reshape": 1, "Expand": 1, "Resize": 3}


def rebatched(
    bound: Bound, inputs: tuple[str, ...], outputs: tuple[str, ...], old: int, new: int
) -> Bound:
    """`bound`, whose `inputs` all hold `old` samples along their first axis, for `new` samples.

    Constant operands that say a shape follow the batch. Raises `UnsupportedError` when a call
    might mix samples, or an output would not hold `new` samples along its first axis.
    """
    change = _Rebatch(bound, old, new)
    for name in inputs:
        change.scale(name, 0)
    calls = tuple(change.changed(call) for call in bound.calls)
    for name in outputs:
        if change.axes.get(name) != 0:
            raise change.refused(f"output '{name}' does not hold the batch along its first axis")
    return Bound(calls, change.walk.types, change.walk.constants)


class _Rebatch:
    """The batch axis of each value met so far.

    `types` are for the old batch size, those of `walk` for the new one where a value has a batch
    axis. A class because each call adds to what the next ones need.
    """

    def __init__(self, bound: Bound, old: int, new: int) -> None:
        self.types = dict(bound.types)
        self.old = old
        self.new = new
        self.axes: dict[str, int] = {}
        self.walk = Walk(bound.types, bound.constants, {})

    def changed(self, call: Call) -> Call:
        """The call for the new batch size; records its results."""
        if not any(name in self.axes for name in call.inputs):
            return call
        call = self._repeated(call) if call.op == "Concat" else call
        axis = batch_axis(self._use(call))
        if axis is None:
            raise self.refused(f"{call.label} might mix samples")
        for name in filter(None, call.outputs):
            self.scale(name, axis)
        return self._fitted(call)

    def scale(self, name: str, axis: int) -> None:
        """Record the batch axis of a value, and its type for the new batch size."""
        given = self.types[name]
        if axis >= len(given.shape) or given.shape[axis] % self.old:
            raise self.refused(f"value '{name}' of shape {list(given.shape)} has no batch axis")
        self.axes[name] = axis
        extent = given.shape[axis] // self.old * self.new
        shape = (*given.shape[:axis], extent, *given.shape[axis + 1 :])
        self.walk.types[name] = TensorType(given.dtype, shape)

    def refused(self, reason: str) -> UnsupportedError:
        """The refusal to change the batch."""
        return UnsupportedError(
            f"the model has a fixed batch of {self.old}, batch size {self.new} was asked: "
            f"{reason}; use batch size {self.old}, or export it with a symbolic batch"
        )

    def _use(self, call: Call) -> Use:
        return Use(
            call,
            types=tuple(self.types[name] if name else None for name in call.inputs),
            axes=tuple(self.axes.get(name) for name in call.inputs),
            values=tuple(self.walk.small_value(name) for name in call.inputs),
            results=tuple(self.types[name] for name in call.outputs if name),
            batch=self.old,
        )

    def _fitted(self, call: Call) -> Call:
        """The call, with a shape operand of the new batch where the old one says the old batch."""
        wanted = {name: self.walk.types[name] for name in call.outputs if name}
        if self._gives(call, wanted):
            return call
        at = _SHAPE_OPERANDS.get(call.op, len(call.inputs))
        if at < len(call.inputs) and call.inputs[at]:
            name = f"{call.outputs[0]}/shape"
            shape = self.walk.types[call.outputs[0]].shape
            self.walk.define(name, literal(np.asarray(shape, dtype=np.int64)))
            changed = (*call.inputs[:at], name, *call.inputs[at + 1 :])
            call = replace(call, inputs=changed)
            if self._gives(call, wanted):
                return call
        raise self.refused(f"{call.label} is made for the fixed batch")

    def _gives(self, call: Call, wanted: dict[str, TensorType]) -> bool:
        try:
            return self.walk.inferred(call) == wanted
        except ModelError:
            return False

    def _repeated(self, call: Call) -> Call:
        """A Concat with its constants (a class token, say) repeated for each sample."""
        axes = {self.axes[name] for name in call.inputs if name in self.axes}
        if self.old != 1 or len(axes) != 1:
            return call
        axis = axes.pop()
        return replace(call, inputs=tuple(self._per_sample(name, axis) for name in call.inputs))

    def _per_sample(self, name: str, axis: int) -> str:
        constant = self.walk.constants.get(name)
        if constant is None or constant.type.shape[axis : axis + 1] != (1,):
            return name
        repeated = f"{name}/batch_{self.new}"
        self.types[repeated] = constant.type
        self.scale(repeated, axis)
        given = self.walk.types[repeated]
        self.walk.constants[repeated] = Constant(given, _Repeated(constant, given.shape))
        return repeated


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A `Constant.load` that broadcasts another constant."""

    constant: Constant
    shape: tuple[int, ...]

    def __call__(self) -> Array:
        return np.broadcast_to(value_of(self.constant), self.shape)
