"""The stages of an inference on its way through host and card."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.program import Program, VectorOp
from compiler.target import Sku, device
from runtime_sim.host.moments import Moment
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from tests.oracles.programs import ProgramBuilder, programs
from tests.runtime_sim.test_closed_forms import NS, PLAIN, US

STD = device(Sku.STD)


@given(
    program=programs(),
    options=st.builds(
        RunOptions,
        instances=st.integers(1, 3),
        set_size=st.integers(1, 5),
        threads_per_queue=st.integers(1, 3),
    ),
)
def test_moments_follow_each_other(program: Program, options: RunOptions) -> None:
    run = SimulatorBackend(STD).record(program, options)
    done = run.moments[:, :, : run.warmup + options.inferences]
    assert np.all(np.diff(done, axis=0) >= 0)
    assert np.all(np.diff(done, axis=2) >= 0)


def test_a_lone_inference_takes_each_stage_s_own_time() -> None:
    builder = ProgramBuilder(input_bytes=20_000, output_bytes=10_000)
    builder.vector(7_000, VectorOp.ADD)  # 7 us
    timing = replace(
        PLAIN,
        host_prepare_ns=4_000,
        host_submit_ns=6_500,
        launch_ns=5_000,
        pcie_latency_ns=2_000,
        host_finish_ns=2_500,
    )
    run = SimulatorBackend(STD, timing).record(
        builder.build(), RunOptions(instances=1, set_size=1, inferences=1)
    )
    stages = np.diff(run.moments[:, 0, run.warmup])
    # 20 and 10 kB at 10 GB/s take 2 and 1 us, each way with the latency of a request.
    expected = {
        Moment.PREPARING: 0,
        Moment.PREPARED: 4 * US,
        Moment.SUBMITTED: 6_500 * NS,
        Moment.SENDING: 0,
        Moment.ARRIVED: 4 * US,
        Moment.BEGUN: 5 * US,
        Moment.ENDED: 7 * US,
        Moment.DRAINED: 3 * US,
        Moment.FINISHING: 0,
        Moment.DONE: 2_500 * NS,
    }
    for moment, time_ps in expected.items():
        assert stages[moment - 1] == pytest.approx(time_ps, rel=1e-5, abs=1), moment
