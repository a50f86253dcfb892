"""What every device backend promises, run on all that ship."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from compiler.program import Program, VectorOp
from compiler.target import DeviceSpec, Sku, device
from runtime_sim.backend import DeviceBackend
from runtime_sim.errors import RunOptionError
from runtime_sim.null import NullBackend
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend
from tests.oracles.programs import ProgramBuilder

Make = Callable[[DeviceSpec], DeviceBackend[Program]]


@pytest.fixture(params=[SimulatorBackend, NullBackend])
def backend(request: pytest.FixtureRequest) -> DeviceBackend[Program]:
    make: Make = request.param
    return make(device(Sku.STD))


def pipeline(num_cores: int = 2, sku: Sku = Sku.STD) -> Program:
    builder = ProgramBuilder(num_cores=num_cores, batch_size=4, input_bytes=50_000, sku=sku)
    for core in range(num_cores):
        loaded = builder.read(100_000, core=core)
        product = builder.matmul(256, 256, 256, (loaded,), core=core)
        builder.vector(65_536, VectorOp.ADD, (product,), core=core)
    return builder.build()


def test_units(backend: DeviceBackend[Program]) -> None:
    run = backend.run(pipeline(), RunOptions(instances=3, set_size=2, inferences=8))
    assert run.batch_size == 4
    assert run.inferences == 3 * 8
    assert run.duration_s > 0
    assert run.inferences_per_s == run.inferences * run.batch_size / run.duration_s
    latency = run.latency
    assert 0 < latency.p50_s <= latency.p90_s <= latency.p95_s <= latency.p99_s
    assert latency.mean_s <= latency.p99_s * (1 + 1e-12)  # a sum of equal floats is rounded
    assert run.backend_version == backend.version


def test_outstanding_inferences_fit_time_and_rate(backend: DeviceBackend[Program]) -> None:
    """Little's law, with room for the gap between a completion and the next call."""
    options = RunOptions(instances=2, set_size=8, inferences=16)
    run = backend.run(pipeline(), options)
    outstanding = options.instances * options.set_size * run.batch_size
    inside = run.latency.mean_s * run.inferences_per_s
    assert inside <= outstanding * 1.001
    # The gap is at most 50 us of a round trip here: a twentieth, not a half.
    assert inside >= outstanding * 0.5


def test_equal_arguments_equal_results(backend: DeviceBackend[Program]) -> None:
    options = RunOptions(instances=2, set_size=3)
    assert backend.deterministic
    assert backend.run(pipeline(), options) == backend.run(pipeline(), options)


def test_a_longer_queue_does_not_cost_throughput(backend: DeviceBackend[Program]) -> None:
    """Within 1 %: measuring windows of a periodic run may cut a period."""
    rates = [
        backend.run(pipeline(), RunOptions(instances=2, set_size=size)).inferences_per_s
        for size in (1, 2, 4, 8)
    ]
    assert all(after >= before * 0.99 for before, after in pairwise(rates))


def test_too_many_cores_are_refused(backend: DeviceBackend[Program]) -> None:
    with pytest.raises(RunOptionError, match="16, std has 14 NSPs"):
        backend.run(pipeline(), RunOptions(instances=8))


def test_a_program_of_another_card_is_refused(backend: DeviceBackend[Program]) -> None:
    with pytest.raises(RunOptionError, match="pro"):
        backend.run(pipeline(sku=Sku.PRO), RunOptions(instances=1))
