"""Results that depend on constants only, evaluated when their values are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Call
from compiler.frontend.evaluate import evaluate
from compiler.ir.graph import Array, Constant, value_of

# assumed: above the largest table of embeddings that was seen (a vocabulary of 262,144 by 2,048);
# in single precision that takes 2 GiB.
_MAX_MADE_ELEMENTS = 1 << 29

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
        """The values; evaluates what they depend on, each call once, and keeps nothing.

        Raises `UnsupportedError` before it makes a tensor that would take too much memory.
        """
        self._check_made()
        results: Results = {}
        uses, done = self._uses(), set[int]()
        # A stack instead of recursion: a chain of calls may be longer than Python's limit.
        waiting = [self]
        while waiting:
            last = waiting[-1]
            needed = [item for item in last.sources() if id(item.call) not in done]
            if needed and id(last.call) not in done:
                waiting.extend(needed)
                continue
            waiting.pop()
            if id(last.call) not in done:
                done.add(id(last.call))
                results[id(last.call)] = last.evaluated(results)
                _forget(last, uses, results)
        result = results[id(self.call)][self.output]
        if result.shape != self.shape:
            raise ModelError(
                f"{self.call.label} folds to shape {list(result.shape)}, inferred was "
                f"{list(self.shape)}; fold it before the export"
            )
        return result

    def _uses(self) -> Counter[int]:
        """How many calls read the results of each call, by its id."""
        return Counter(source for item in self._calls() for source in _source_ids(item))

    def _check_made(self) -> None:
        made = max(self.largest_elements, prod(self.shape))
        if made > _MAX_MADE_ELEMENTS:
            raise UnsupportedError(
                f"{self.call.label} is computed from constants by way of {made} elements, at most "
                f"{_MAX_MADE_ELEMENTS} are made here; fold it before the export"
            )

    @property
    def largest_elements(self) -> int:
        """Elements of the largest operand anywhere in what it evaluates."""
        operands = (item for call in self._calls() for item in call.operands if item is not None)
        return max((item.type.elements for item in operands), default=0)

    def _calls(self) -> Iterable[Folded]:
        """This one and all that it depends on, each call once."""
        seen: dict[int, Folded] = {}
        waiting = [self]
        while waiting:
            item = waiting.pop()
            if id(item.call) not in seen:
                seen[id(item.call)] = item
                waiting.extend(item.sources())
        return seen.values()

    def sources(self) -> list[Folded]:
        """The operands that are results of other calls on constants."""
        loads = [item.load for item in self.operands if item is not None]
        return [load for load in loads if isinstance(load, Folded)]

    def evaluated(self, results: Results) -> tuple[Array, ...]:
        """The outputs of the call, when `results` holds those of its sources by call."""
        return evaluate(self.call, tuple(_value(item, results) for item in self.operands))


def _source_ids(item: Folded) -> set[int]:
    return {id(source.call) for source in item.sources()}


def _forget(item: Folded, uses: Counter[int], results: Results) -> None:
    """Drop the results that `item` was the last to read: a chain of large ones takes room."""
    for source in _source_ids(item):
        uses[source] -= 1
        if not uses[source]:
            del results[source]


def _value(constant: Constant | None, results: Results) -> Array | None:
    if constant is None:
        return None
    if isinstance(constant.load, Folded):
        return results[id(constant.load.call)][constant.load.output]
    return value_of(constant)
