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

`runtime_sim.engine` simulates all instances with each of their transfers; its phases lock, drift
and bunch (a few per cent, over tens of inferences). The studies compare both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from runtime_sim.device.work import BACKGROUND_BITS, SERVERS

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

TOLERANCE = 1e-5
"""assumed: of the mean number of transfers in flight on the whole card; rates follow it less than
proportionally, and measurements are printed to four digits."""
_MOST_ROUNDS = 60
"""assumed: several times what any program of the studies needs; a cap, so that a run ends."""
_STEEPEST = 0.95
"""assumed: how near to 1 a slope is believed; beyond, the next guess would be anywhere."""


class Lone(Protocol):
    """One instance under a background."""

    @property
    def flying(self) -> F64:
        """The mean number of its transfers in flight at each server."""


L = TypeVar("L", bound=Lone)


def settle(alone: Callable[[tuple[int, ...]], L], others: int) -> L:
    """One instance as it runs beside `others` like it.

    `alone` simulates it under a background for each server, in 2^-`BACKGROUND_BITS` transfers.
    """
    guess = np.zeros(SERVERS)
    before: tuple[F64, F64] | None = None
    for _ in range(_MOST_ROUNDS):
        lone = alone(_fixed_point(guess, others))
        shown = lone.flying
        if others == 0 or np.all(np.abs(shown - guess) * others <= TOLERANCE * (1 + others)):
            break
        before, guess = (guess, shown), _next_guess(before, guess, shown)
    return lone


def _fixed_point(flying: F64, others: int) -> tuple[int, ...]:
    return tuple(round(float(mean) * others * (1 << BACKGROUND_BITS)) for mean in flying)


def _next_guess(before: tuple[F64, F64] | None, guess: F64, shown: F64) -> F64:
    """Where the line through the last two answers of each server reproduces its guess."""
    if before is None:
        return shown
    step = guess - before[0]
    moved = np.abs(step) > 1e-12
    slope = np.divide(shown - before[1], step, out=np.zeros(SERVERS), where=moved)
    slope = np.clip(slope, -1.0, _STEEPEST)
    following: F64 = np.maximum(guess + (shown - guess) / (1 - slope), 0.0)
    return following
