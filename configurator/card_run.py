"""A program run for a number of inferences or seconds on the simulated card, as its host sees it.

The start is simulated: queues fill, and the first results take longer. What comes after the
simulated part repeats it, since nothing in the simulator varies from one inference to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler.target import DeviceSpec
from runtime_sim.options import RunOptions

if TYPE_CHECKING:  # numpy takes a while to import
    from compiler.program import Program
    from runtime_sim.engine import I64
    from runtime_sim.simulator import Recording

DEFAULT_INFERENCES = 40
"""What the vendor's runner does where neither a number nor a time is given."""

_LEAST_SIMULATED = 20
"""assumed: steady inferences simulated of each instance, in whole rounds of its queue, as their
times repeat from round to round; two rounds of the default set size."""

_PS_PER_S = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much is run: `inferences` over all instances, or what is asked for in `seconds`."""

    inferences: int = DEFAULT_INFERENCES
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CardRun:
    """What ran. `counts` are the inferences of each instance, `recording` is that of any one."""

    options: RunOptions
    batch_size: int
    recording: Recording
    counts: tuple[int, ...]

    @property
    def inferences(self) -> int:
        """Completed, of whole batches, over all instances."""
        return sum(self.counts)

    @property
    def duration_s(self) -> float:
        """From the first call to the last completion."""
        return _at_s(self.recording, self.recording.done_at[0], max(self.counts) - 1)

    @property
    def inferences_per_s(self) -> float:
        """Samples (not batches) per second, the start included."""
        return self.inferences * self.batch_size / self.duration_s

    def asked_before(self, seconds: float) -> int:
        """How many inferences an instance has asked for before that time."""
        return _asked_before(self.recording, seconds)


def run_on_card(
    program: Program, device: DeviceSpec, options: RunOptions, amount: Amount
) -> CardRun:
    """Run `options.instances` of `program`; `options.inferences` is of no account.

    Raises `RunOptionError` or `DoesNotFitError` for what the device refuses.
    """
    from runtime_sim.simulator import SimulatorBackend

    slots = max(options.set_size, 1)  # what cannot be is refused by the simulator
    rounds = max(-(-_LEAST_SIMULATED // slots), 2)
    options = replace(options, inferences=rounds * slots)
    recording = SimulatorBackend(device).steady(program, options).recording
    counts = _counts(recording, options.instances, amount)
    return CardRun(options, program.options.batch_size, recording, counts)


def _counts(recording: Recording, instances: int, amount: Amount) -> tuple[int, ...]:
    if amount.seconds is not None:
        return (_asked_before(recording, amount.seconds),) * instances
    each, more = divmod(amount.inferences, instances)
    return tuple(each + (number < more) for number in range(instances))


def _recorded(recording: Recording) -> int:
    return recording.warmup + recording.inferences


def _cycle_s(recording: Recording) -> float:
    """How long the steady part is, which repeats: whole rounds of the queue."""
    return recording.inferences / recording.per_s


def _at_s(recording: Recording, moments: I64, number: int) -> float:
    """When inference `number`, from 0, came to a moment whose recorded times are given."""
    beyond = number - _recorded(recording) + 1
    cycles = max(-(-beyond // recording.inferences), 0)
    recorded_ps = float(moments[number - cycles * recording.inferences])
    return recorded_ps / _PS_PER_S + cycles * _cycle_s(recording)


def _asked_before(recording: Recording, seconds: float) -> int:
    asked = recording.asked_at[0, : _recorded(recording)]
    beyond_s = seconds - float(asked[-1]) / _PS_PER_S
    cycles = max(math.ceil(beyond_s / _cycle_s(recording)), 0)
    in_cycle_ps = (seconds - cycles * _cycle_s(recording)) * _PS_PER_S
    return int(asked.searchsorted(in_cycle_ps)) + cycles * recording.inferences
