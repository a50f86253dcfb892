"""The stages of an inference from the call to its result, without gap or overlap."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from compiler.program import Program
from runtime_sim.host.moments import Moment
from runtime_sim.host.queue import PS_PER_NS
from runtime_sim.profile.passes import output_latency_ps
from runtime_sim.profile.path import Part
from runtime_sim.simulator import Recording
from runtime_sim.timing import TimingParams

I64 = NDArray[np.int64]


class Stage(IntEnum):
    """What an inference does or waits for, in this order."""

    THREAD_WAIT = 0
    """called; no thread of its queue is free"""
    PREPARE = 1
    """inputs go to transfer buffers"""
    SUBMIT = 2
    """the request goes to the card's channel"""
    BUFFER_WAIT = 3
    """no input buffer on the card is free: the inferences before it hold them"""
    INPUT = 4
    """inputs cross PCIe"""
    DEVICE_WAIT = 5
    """the cores run another inference, or there is no room for one more output"""
    LAUNCH = 6
    """semaphores set the cores off"""
    EXECUTE = 7
    """the cores run it"""
    OUTPUT_WAIT = 8
    """another output crosses PCIe"""
    OUTPUT = 9
    """outputs cross PCIe"""
    RESULT_WAIT = 10
    """no thread of its queue is free"""
    FINISH = 11
    """outputs go to the caller"""


PART_OF = {
    Stage.THREAD_WAIT: Part.QUEUE,
    Stage.PREPARE: Part.HOST,
    Stage.SUBMIT: Part.HOST,
    Stage.BUFFER_WAIT: Part.QUEUE,
    Stage.INPUT: Part.PCIE,
    Stage.DEVICE_WAIT: Part.QUEUE,
    Stage.LAUNCH: Part.SYNC,
    Stage.OUTPUT_WAIT: Part.QUEUE,
    Stage.OUTPUT: Part.PCIE,
    Stage.RESULT_WAIT: Part.QUEUE,
    Stage.FINISH: Part.HOST,
}
"""The execution is missing: its own parts are those of its path."""


def borders_of(recording: Recording, program: Program, timing: TimingParams) -> I64:
    """When each stage of each inference begins, and the last one ends, [stage + 1, inference].

    In picoseconds, of the first instance. An inference that the recording's end cut off has zeros
    from there on.
    """
    at = recording.moments[:, 0]
    launched = np.maximum(at[Moment.BEGUN] - timing.launch_ns * PS_PER_NS, 0)
    drained = at[Moment.DRAINED]
    free = np.concatenate([[0], drained[:-1] - output_latency_ps(program, timing)])
    sent = np.where(drained > 0, np.maximum(at[Moment.ENDED], free), 0)
    before, after = at[: Moment.BEGUN], at[Moment.BEGUN : Moment.DRAINED]
    return np.concatenate([before, launched[None], after, sent[None], at[Moment.DRAINED :]])
