"""The host's side of a run: what each inference costs before and after the device.

Each instance has a closed queue: `set_size` inferences are outstanding, and each is asked for
again after a gap once its result is there. Threads prepare inputs and finish outputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from compiler.program import Program
from runtime_sim.device.work import PreparedTasks
from runtime_sim.options import RunOptions
from runtime_sim.timing import TimingParams

PS_PER_NS = 1000
PS_PER_S = 10**12


def warmup_inferences(program: Program, options: RunOptions) -> int:
    """Completions of each instance that are left out: a full queue, pipeline and buffers."""
    return options.set_size + 2 + len(program.stage_cores)


def host_parameters(
    program: Program, options: RunOptions, timing: TimingParams, tasks: PreparedTasks
) -> NDArray[np.int64]:
    """The engine's parameter vector; the order is that of `runtime_sim.engine.P_*`."""
    warmup = warmup_inferences(program, options)
    prepare_ps = timing.host_prepare_ns * PS_PER_NS + _copy_ps(
        program.input_bytes, timing.host_prepare_bytes_per_s
    )
    finish_ps = timing.host_finish_ns * PS_PER_NS + _copy_ps(
        program.output_bytes, timing.host_finish_bytes_per_s
    )
    values = (
        len(tasks.task),
        tasks.queues.shape[1],
        options.instances,
        options.set_size,
        options.threads_per_queue,
        program.input_bytes,
        program.output_bytes,
        2 if program.double_buffered_inputs else 1,
        prepare_ps,
        timing.host_submit_ns * PS_PER_NS,
        finish_ps,
        timing.host_gap_ns * PS_PER_NS,
        timing.host_enqueue_ns * PS_PER_NS,
        timing.launch_ns * PS_PER_NS,
        program.input_transfers * timing.pcie_latency_ns * PS_PER_NS,
        program.output_transfers * timing.pcie_latency_ns * PS_PER_NS,
        warmup,
        warmup + options.inferences,
        max(1, len(program.stage_cores)),
    )
    return np.asarray(values, dtype=np.int64)


def _copy_ps(size_bytes: int, bytes_per_s: int) -> int:
    return size_bytes * PS_PER_S // bytes_per_s
