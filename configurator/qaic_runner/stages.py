"""The spans of an inference between its moments, under the names of the vendor's latency file.

They add up: the total round trip is enqueueing, pre-processing, the execution as the caller sees
it (`exec_total`) and post-processing; the host's round trip is the way to the virtual channel and
from there to the interrupt; a device is busy, waits for an input, or for room for its output.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime_sim.host.moments import Moment
from runtime_sim.simulator import Recording
from runtime_sim.timing import CALIBRATED

I64 = NDArray[np.int64]

_PS_PER_NS = 1000

_SUBMIT_NS, _TO_CHANNEL_NS = 1_600, 4_900
"""Vendor's tuning tutorials, means: the submit call, and from the kernel to the virtual channel;
the simulator has the sum of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStages:
    """What the device itself tells of each inference, in nanoseconds.

    `input_wait` also has the launch. Executions of a pipeline overlap; these wait for nothing.
    """

    execution: I64
    input_wait: I64
    output_wait: I64


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Inferences of one instance in its steady state: spans in nanoseconds, [inference].

    `queue_depth` counts submitted and not yet answered inferences just before the submit.
    """

    enqueue: I64
    prepare: I64
    submit: I64
    exec_total: I64
    to_channel: I64
    to_complete: I64
    host_round_trip: I64
    finish: I64
    total: I64
    queue_depth: I64
    device: DeviceStages

    def __len__(self) -> int:
        """Number of inferences."""
        return len(self.total)


def stages_of(recording: Recording) -> Stages:
    """The spans of all inferences in the steady part."""
    # Rounded moments, not spans: so the spans add up to the last digit.
    at = np.rint(recording.moments[:, 0] / _PS_PER_NS).astype(np.int64)
    window = slice(recording.warmup, recording.warmup + recording.inferences)
    asked, preparing, prepared, submitted = at[: Moment.SENDING, window]
    drained, finishing, done = at[Moment.DRAINED :, window]
    submit = (submitted - prepared) * _SUBMIT_NS // (_SUBMIT_NS + _TO_CHANNEL_NS)
    numbers = np.arange(window.start, window.stop)
    answered = np.searchsorted(at[Moment.DRAINED, : window.stop], prepared, side="right")
    return Stages(
        enqueue=preparing - asked,
        prepare=prepared - preparing,
        submit=submit,
        exec_total=finishing - prepared,
        to_channel=submitted - prepared - submit,
        to_complete=drained - submitted,
        host_round_trip=drained - prepared - submit,
        finish=done - finishing,
        total=done - asked,
        queue_depth=numbers - answered,
        device=_device(at, window),
    )


def _device(at: I64, window: slice) -> DeviceStages:
    before = slice(window.start - 1, window.stop - 1)
    arrived, begun = at[Moment.ARRIVED, window], at[Moment.BEGUN, window]
    ended, free = at[Moment.ENDED, window], at[Moment.ENDED, before]
    output_wait = begun - CALIBRATED.launch_ns - np.maximum(arrived, free)
    output_wait = np.where(free <= begun, np.maximum(output_wait, 0), 0)
    return DeviceStages(
        execution=ended - begun,
        input_wait=np.maximum(begun - free - output_wait, 0),
        output_wait=output_wait,
    )
