"""Results that depend on constants only, evaluated when their values are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import ModelError
from compiler.frontend.calls import Call
from compiler.frontend.evaluate import evaluate
from compiler.ir.graph import Array, Constant, value_of

Results = dict[int, tuple[Array, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """A `Constant.load` that evaluates a call on constants.

    `output` counts the outputs that are not left out, `shape` is the shape of that one.
    """

    call: Call
    operands: tuple[Constant | None, ...]
    output: int
    shape: tuple[int, ...]

    def __call__(self) -> Array:
        """The values; evaluates what they depend on, each call once, and keeps nothing."""
        results: Results = {}
        # A stack instead of recursion: a chain of calls may be longer than Python's limit.
        waiting = [self]
        while waiting:
            needed = [item for item in waiting[-1].sources() if id(item.call) not in results]
            if needed:
                waiting.extend(needed)
            else:
                last = waiting.pop()
                results[id(last.call)] = last.evaluated(results)
        result = results[id(self.call)][self.output]
        if result.shape != self.shape:
            raise ModelError(
                f"{self.call.label} folds to shape {list(result.shape)}, inferred was "
                f"{list(self.shape)}; fold it before the export"
            )
        return result

    @property
    def largest_elements(self) -> int:
        """Elements of the largest operand anywhere in what it evaluates."""
        seen: dict[int, Folded] = {}
        waiting = [self]
        largest = 0
        while waiting:
            item = waiting.pop()
            if id(item.call) in seen:
                continue
            seen[id(item.call)] = item
            largest = max([largest, *(c.type.elements for c in item.operands if c is not None)])
            waiting.extend(item.sources())
        return largest

    def sources(self) -> list[Folded]:
        """The operands that are results of other calls on constants."""
        loads = [item.load for item in self.operands if item is not None]
        return [load for load in loads if isinstance(load, Folded)]

    def evaluated(self, results: Results) -> tuple[Array, ...]:
        """The outputs of the call, when `results` holds those of its sources by call."""
        return evaluate(self.call, tuple(_value(item, results) for item in self.operands))


def _value(constant: Constant | None, results: Results) -> Array | None:
    if constant is None:
        return None
    if isinstance(constant.load, Folded):
        return results[id(constant.load.call)][constant.load.output]
    return value_of(constant)
