"""Instances side by side in their steady state: what each sees of the others.

Instances of a program start at unrelated times, are disturbed by their hosts and drift: over a run
of thousands of inferences each meets the others in every phase. So each sees the others' transfers
as their mean: a server shares its rate among the transfers in flight of the instance itself and,
for each other instance, the mean number that it has in flight. That mean is what the instance
itself shows under this background; `settle` finds the background that reproduces itself.

What follows from it:

- one instance alone is exact, and so are instances whose transfers never cease;
- no server exceeds its rate: an instance's part n / (n + (I - 1) a) is concave in n, so that its
  mean is at most 1 / I for n of mean a (Jensen's inequality);
- equal arguments give equal results, without the noise of whatever phases a run happens to have.

The NSP clock settles in the same way: it is the one at which the card's power meets its cap, and
the power follows from what the instances get done at that clock.

`runtime_sim.engine` simulates all instances with each of their transfers. As long as their phases
are spread, both agree within a per cent or two; left to itself without any disturbance, though,
instances of some programs fall into step and ask for DDR all at once (`studies.steady`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from runtime_sim.device.work import BACKGROUND_BITS, DDR, NOC, SERVERS

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

TOLERANCE = 1e-5
"""assumed: of the mean number of an instance's transfers in flight, and of the clock in GHz; rates
follow less than proportionally, and measurements are printed to four digits."""
_MOST_ROUNDS = 60
"""assumed: several times what any program of the studies needs; a cap, so that a run ends."""
_GHZ = 1e9
_STEEPEST = 0.95
"""assumed: how near to 1 a slope is believed; beyond, the next guess would be anywhere."""
_COUPLED = [DDR, NOC, SERVERS]
"""Numbers that change with each other: a faster clock makes transfers denser, which slows
the instance and leaves power for the clock. PCIe has queues before it and goes its own way."""
_DISTINCT = 1e-3
"""assumed: how much the last two steps must differ to be two; an order of transfers that changes
makes answers jump by about so much of a step."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an instance sees of the others and the card.

    `background`: others' transfers at each server, in 2^-`BACKGROUND_BITS`; `clock_hz`: the NSP
    clock that the power of all leaves.
    """

    background: tuple[int, ...]
    clock_hz: int


class Lone(Protocol):
    """One instance in its surroundings, and what they would be if all are like it."""

    @property
    def flying(self) -> F64:
        """The mean number of its transfers in flight at each server."""

    @property
    def fitting_clock_hz(self) -> float:
        """The clock at which a card full of its like meets the power cap, or the ceiling."""


L = TypeVar("L", bound=Lone)


def settle(alone: Callable[[Surroundings], L], others: int, ceiling_hz: int) -> L:
    """One instance as it runs beside `others` like it; `alone` simulates it."""
    guess = np.array([0.0] * SERVERS + [ceiling_hz / _GHZ])
    weight = np.array([others / (1 + others)] * SERVERS + [1.0])
    rounds: list[_Round] = []
    for _ in range(_MOST_ROUNDS):
        lone = alone(_surroundings(guess, others))
        shown = np.append(lone.flying if others else guess[:SERVERS], lone.fitting_clock_hz / _GHZ)
        if np.all(np.abs(shown - guess) * weight <= TOLERANCE):
            break
        rounds = [*rounds[-2:], _Round(guess, shown - guess)]
        guess = _next_guess(rounds, weight, ceiling_hz / _GHZ)
    return lone


def _surroundings(guess: F64, others: int) -> Surroundings:
    background = (round(float(mean) * others * (1 << BACKGROUND_BITS)) for mean in guess[:SERVERS])
    return Surroundings(tuple(background), round(float(guess[SERVERS]) * 1e6) * 1000)


@dataclass(frozen=True, slots=True)
class _Round:
    """What was guessed, and how far the answer was from it."""

    guess: F64
    off: F64


def _next_guess(rounds: list[_Round], weight: F64, ceiling_ghz: float) -> F64:
    """Where the last answers say that a guess reproduces itself."""
    last = rounds[-1]
    following = _each_by_itself(rounds)
    if len(rounds) > 2:
        following[_COUPLED] = _together(rounds, weight)
    following = np.maximum(following, 0.0)
    slowest = (last.guess + last.off)[SERVERS] / 2
    following[SERVERS] = np.clip(following[SERVERS], slowest, ceiling_ghz)
    return following


def _each_by_itself(rounds: list[_Round]) -> F64:
    """The line through the last two answers of each number, where it meets its guess."""
    last = rounds[-1]
    if len(rounds) < 2:
        return last.guess + last.off
    step, change = last.guess - rounds[-2].guess, last.off - rounds[-2].off
    slope = np.divide(change, step, out=np.full(len(step), -1.0), where=np.abs(step) > 1e-12)
    following: F64 = last.guess - last.off / np.clip(slope, -2.0, _STEEPEST - 1)
    return following


def _together(rounds: list[_Round], weight: F64) -> F64:
    """The combination of the last steps that would leave the least of `off` (Anderson)."""
    last = rounds[-1]
    off, scale = last.off[_COUPLED], weight[_COUPLED]
    guesses = np.array([each.guess[_COUPLED] for each in rounds])
    offs = np.array([each.off[_COUPLED] for each in rounds])
    steps, changes = np.diff(guesses, axis=0).T, np.diff(offs, axis=0).T
    part = np.linalg.lstsq(changes * scale[:, None], off * scale, rcond=_DISTINCT)[0]
    far = np.abs(off) / (1 - _STEEPEST)
    following: F64 = last.guess[_COUPLED] + np.clip(off - (steps + changes) @ part, -far, far)
    return following
