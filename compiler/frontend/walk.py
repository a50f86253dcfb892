"""Going through the calls of a model in order, computing what can be known of each result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from compiler.errors import UnsupportedError
from compiler.frontend.calls import Call
from compiler.frontend.control_flow import expand, is_control_flow, is_decided
from compiler.frontend.einsum import is_other_einsum, rewritten
from compiler.frontend.evaluate import RANDOM, evaluate, has_fast_form, result_elements
from compiler.frontend.fold import Folded
from compiler.frontend.function_body import expanded, has_body
from compiler.frontend.made import Expansion
from compiler.frontend.quantized import dequantised, is_quantised, stays
from compiler.frontend.recurrent import is_recurrent, unrolled
from compiler.frontend.scan import is_scan, unrolled_scan
from compiler.frontend.shapes import check_arity, infer, may_decide_a_shape
from compiler.frontend.tensors import (
    SMALL_ELEMENTS,
    Literal,
    check_size,
    empty,
    literal,
    numpy_dtype,
)
from compiler.ir.graph import Array, Constant, TensorType

# Operators whose result depends on the type of their operand, not on its values.
_OF_TYPE = frozenset({"Shape", "Size", "EyeLike"})

# assumed: above the largest tensors that exporters compute masks and position tables from.
_MAX_EVALUATED_ELEMENTS = 1 << 26

# assumed: more than any model tried has; compiling more would take minutes.
_MAX_MADE_CALLS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The calls that are left to run, in order, and all that is known of the values."""

    calls: tuple[Call, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Constant]


class Walk:
    """The values known so far.

    `types` holds every value met, `constants` those known at compile time. A class because each
    call adds to what the next ones can know.
    """

    def __init__(
        self,
        types: Mapping[str, TensorType],
        constants: Mapping[str, Constant],
        declared: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Start from values that are known before the first call.

        `declared` are shapes that the model states for results.
        """
        self.declared = declared
        self.types = dict(types)
        self.constants = dict(constants)
        self.made_calls = 0

    def run(self, calls: Iterable[Call], on_runtime: Callable[[Call], None]) -> None:
        """Fold what depends on constants only; give every other call to `on_runtime`."""
        waiting = list(calls)
        waiting.reverse()
        while waiting:
            call = waiting.pop()
            check_arity(call)
            if is_control_flow(call) and is_decided(call, self.small_value):
                waiting.extend(reversed(self._taken_apart(expand(call, self.small_value))))
            elif is_recurrent(call) and all(name in self.types for name in call.inputs if name):
                waiting.extend(reversed(self._taken_apart(unrolled(call, self.types))))
            elif is_scan(call) and all(name in self.types for name in call.reads):
                waiting.extend(reversed(self._taken_apart(unrolled_scan(call, self.types))))
            elif is_other_einsum(call) and all(name in self.types for name in call.inputs):
                waiting.extend(reversed(self._taken_apart(rewritten(call, self.types))))
            elif is_quantised(call) and all(name in self.types for name in call.inputs if name):
                waiting.extend(reversed(self._taken_apart(dequantised(call, self.types))))
            elif has_body(call) and all(name in self.types for name in call.inputs if name):
                waiting.extend(reversed(self._taken_apart(expanded(call, self.types))))
            elif not self._folded(call):
                on_runtime(call)

    def define(self, name: str, constant: Constant) -> None:
        """Record a value that is known."""
        self.constants[name] = constant
        self.types[name] = constant.type

    def small_value(self, name: str) -> Array | None:
        """The values of a constant that is small; evaluates it when that was put off.

        One that would be a sum over giant tensors is not evaluated: no shape is made that way.
        """
        constant = self.constants.get(name)
        if constant is None or constant.type.elements > SMALL_ELEMENTS:
            return None
        if isinstance(constant.load, Literal):
            return constant.load.array
        if isinstance(constant.load, Folded) and (
            constant.load.largest_elements > _MAX_EVALUATED_ELEMENTS
        ):
            return None
        held = literal(np.array(constant.load()).reshape(constant.type.shape))
        self.constants[name] = held
        return held.load()

    def inferred(self, call: Call) -> dict[str, TensorType]:
        """The types of the outputs by name, from the types of the inputs."""
        types = tuple(self.types[name] if name else None for name in call.inputs)
        values = tuple(
            self.small_value(name)
            if given is not None and may_decide_a_shape(call, given)
            else None
            for name, given in zip(call.inputs, types, strict=True)
        )
        outputs = [name for name in call.outputs if name]
        results = dict(zip(outputs, infer(call, types, values, self.declared), strict=True))
        for name, result in results.items():
            check_size(result, f"{call.label}: result '{name}'")
        return results

    def made(self, call: Call) -> Call | None:
        """Record what a call makes at run time; gives the call without results of no elements.

        Those are known, and so are all of a call's where no other is left.
        """
        results = self.inferred(call)
        for name, result in results.items():
            if result.elements == 0:
                self.define(name, empty(result))
            else:
                self.types[name] = result
        kept = tuple(name if name not in self.constants else "" for name in call.outputs)
        if kept == call.outputs:
            return call
        return replace(call, outputs=kept) if any(kept) else None

    def _taken_apart(self, expansion: Expansion) -> tuple[Call, ...]:
        self.made_calls += len(expansion.calls)
        if self.made_calls > _MAX_MADE_CALLS:
            raise UnsupportedError(
                f"loops and recurrent layers unroll to more than {_MAX_MADE_CALLS} nodes; shorten "
                "the sequence or run them on the host"
            )
        for name, constant in expansion.constants.items():
            self.define(name, constant)
        return expansion.calls

    def _folded(self, call: Call) -> bool:
        """Whether the call's results are constants; records them."""
        if call.literal is not None:
            self.define(call.outputs[0], call.literal)
        elif call.op in _OF_TYPE and not call.domain:
            return self._folded_by_type(call)
        elif self._waits(call):
            return False
        elif call.op in RANDOM:
            raise UnsupportedError(f"{call.label} gives random values; make them an input")
        elif call.bodies:
            raise UnsupportedError(f"{call.label} has a body, which is not evaluated; inline it")
        else:
            self._fold(call)
        return True

    def _waits(self, call: Call) -> bool:
        """Whether a call is left to the device, or to what resolves control flow."""
        known = all(name in self.constants for name in call.inputs if name)
        return not known or is_control_flow(call) or stays(call, self.types)

    def _folded_by_type(self, call: Call) -> bool:
        given = self.types.get(call.inputs[0])
        if given is None:
            return False
        if call.op == "EyeLike":
            blank = Constant(given, lambda: np.zeros(given.shape, numpy_dtype(given.dtype)))
            self._fold_later(call, (blank,), self.inferred(call))
            return True
        self.define(call.outputs[0], literal(_of_shape(call, given.shape)))
        return True

    def _fold(self, call: Call) -> None:
        operands = tuple(self.constants[name] if name else None for name in call.inputs)
        values = tuple(self.small_value(name) if name else None for name in call.inputs)
        if has_fast_form(call, values) and result_elements(call, values) <= SMALL_ELEMENTS:
            (result,) = evaluate(call, values)
            self.define(call.outputs[0], literal(result))
        elif call.op == "Identity" and not call.domain and operands[0] is not None:
            self.define(call.outputs[0], operands[0])
        else:
            self._fold_later(call, operands, self.inferred(call))

    def _fold_later(
        self, call: Call, operands: tuple[Constant | None, ...], results: dict[str, TensorType]
    ) -> None:
        for at, (name, result) in enumerate(results.items()):
            self.define(name, Constant(result, Folded(call, operands, at, result.shape)))


def _of_shape(call: Call, shape: tuple[int, ...]) -> Array:
    if call.op == "Size":
        return np.asarray(prod(shape), dtype=np.int64)
    start, end = call.attributes.get("start", 0), call.attributes.get("end")
    cut = slice(start if isinstance(start, int) else 0, end if isinstance(end, int) else None)
    return np.asarray(shape[cut], dtype=np.int64)
