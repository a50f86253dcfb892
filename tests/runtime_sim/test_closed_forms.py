"""Times that can be worked out on paper, from round numbers chosen here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.program import Program, TaskKind, VectorOp
from compiler.target import Sku, device
from runtime_sim.options import RunOptions
from runtime_sim.simulator import Recording, SimulatorBackend
from runtime_sim.timing import PUBLISHED, TimingParams
from tests.oracles.programs import ProgramBuilder

GB = 10**9
NS = 1000
US = 1_000_000

PLAIN = TimingParams(
    nsp_clock_hz=GB,  # a cycle is a nanosecond
    hmx_block=32,
    hmx_cycles_per_block=8,
    hmx_efficiency_permille=1000,
    hmx_task_cycles=0,
    vector_millicycles=tuple(1000 for _ in VectorOp),
    vector_task_cycles=0,
    dma_issue_cycles=0,
    hmx_operator_cycles=0,
    hvx_operator_cycles=0,
    operator_core_cycles=0,
    ddr_bytes_per_s=100 * GB,
    ddr_core_bytes_per_s=25 * GB,
    ddr_latency_ns=0,
    noc_bytes_per_s=200 * GB,
    noc_core_bytes_per_s=100 * GB,
    noc_latency_ns=0,
    barrier_ns=0,
    barrier_core_ns=0,
    launch_ns=0,
    pcie_in_bytes_per_s=10 * GB,
    pcie_out_bytes_per_s=10 * GB,
    pcie_latency_ns=0,
    host_enqueue_ns=0,
    host_submit_ns=0,
    host_prepare_ns=0,
    host_prepare_bytes_per_s=10**18,
    host_finish_ns=0,
    host_finish_bytes_per_s=10**18,
    host_gap_ns=0,
    static_mw=0,
    power_cap_permille=1000,
    voltage_permille=0,
    hmx_fj_per_mac=0,
    hmx_int8_fj_per_mac=0,
    hvx_fj_per_cycle=0,
    ddr_fj_per_byte=0,
    noc_fj_per_byte=0,
    pcie_fj_per_byte=0,
)
"""Round numbers and no overheads; tests switch on what they are about."""

ONE = RunOptions(instances=1, set_size=1, inferences=5)

# Virtual time rounds a rate down by at most one part in a million, and an end up by one tick.
RATE_ERROR = 1e-6


def record(program: Program, options: RunOptions = ONE, timing: TimingParams = PLAIN) -> Recording:
    return SimulatorBackend(device(Sku.STD), timing).record(program, options)


def execution_ps(program: Program, options: RunOptions = ONE, timing: TimingParams = PLAIN) -> int:
    """Time on the device of an inference in the steady part, of the first instance."""
    run = record(program, options, timing)
    return int((run.ended_at - run.begun_at)[0, run.warmup])


def test_one_product_takes_its_blocks() -> None:
    builder = ProgramBuilder()
    builder.matmul(33, 64, 96)
    # 2 x 2 x 3 blocks of 8 cycles of a nanosecond.
    assert execution_ps(builder.build()) == 2 * 2 * 3 * 8 * NS


def test_efficiency_and_task_cost_stretch_a_product() -> None:
    builder = ProgramBuilder()
    builder.matmul(32, 32, 32 * 7)
    timing = replace(PLAIN, hmx_efficiency_permille=700, hmx_task_cycles=11)
    # 7 blocks x 8 cycles / 0.7 = 80 cycles, and 11.
    assert execution_ps(builder.build(), timing=timing) == 91 * NS


def test_vector_work_takes_its_elements() -> None:
    builder = ProgramBuilder()
    builder.vector(1000, VectorOp.ADD)
    slow = replace(PLAIN, vector_millicycles=tuple(2500 for _ in VectorOp), vector_task_cycles=7)
    assert execution_ps(builder.build(), timing=slow) == 2507 * NS


def test_a_chain_adds_up_and_independent_engines_overlap() -> None:
    chain, free = ProgramBuilder(), ProgramBuilder()
    first = chain.matmul(32, 32, 320)
    second = chain.vector(50, VectorOp.ADD, (first,))
    chain.matmul(32, 32, 320, (second,))
    free.matmul(32, 32, 320)
    free.vector(50, VectorOp.ADD)
    free.matmul(32, 32, 320)
    assert execution_ps(chain.build()) == (80 + 50 + 80) * NS
    assert execution_ps(free.build()) == 160 * NS


def test_an_engine_runs_its_tasks_in_order() -> None:
    builder = ProgramBuilder(num_cores=2)
    late = builder.matmul(32, 32, 3200, core=1)
    builder.vector(10, VectorOp.ADD, (late,))
    builder.vector(10, VectorOp.ADD)
    # The second vector task waits behind the first, which waits 800 ns for the other core.
    assert execution_ps(builder.build()) == 820 * NS


def test_a_read_pays_issue_bytes_and_latency() -> None:
    builder = ProgramBuilder()
    builder.read(25_000)
    timing = replace(PLAIN, dma_issue_cycles=13, ddr_latency_ns=400)
    expected = (13 + 1000 + 400) * NS
    assert execution_ps(builder.build(), timing=timing) == pytest.approx(expected, rel=RATE_ERROR)


def test_a_read_for_several_cores_is_later_by_the_network_and_sends_pass_it() -> None:
    builder = ProgramBuilder(num_cores=2)
    builder.add(TaskKind.READ, (25_000, 0, 1), core=0)
    builder.send(100_000, 1, core=0)
    timing = replace(PLAIN, ddr_latency_ns=400, noc_latency_ns=90)
    expected = (1000 + 400 + 90) * NS  # the send takes 1000 + 90 meanwhile
    assert execution_ps(builder.build(), timing=timing) == pytest.approx(expected, rel=RATE_ERROR)


def test_latency_is_pipelined_behind_the_next_read() -> None:
    builder = ProgramBuilder()
    for _ in range(10):
        builder.read(25_000)
    timing = replace(PLAIN, ddr_latency_ns=400)
    expected = (10 * 1000 + 400) * NS
    assert execution_ps(builder.build(), timing=timing) == pytest.approx(expected, rel=RATE_ERROR)


@pytest.mark.parametrize("cores", [1, 3, 4, 5, 14])
def test_reads_share_ddr_equally_up_to_a_core_s_own_rate(cores: int) -> None:
    builder = ProgramBuilder(num_cores=cores)
    for core in range(cores):
        builder.read(1_000_000, core=core)
    rate = min(25 * GB, 100 * GB / cores)
    expected = 1_000_000 / rate * 1e12
    assert execution_ps(builder.build()) == pytest.approx(expected, rel=RATE_ERROR)


def test_a_short_transfer_leaves_its_share_to_the_long_one() -> None:
    builder = ProgramBuilder(num_cores=2)
    builder.send(100_000, 1, core=0)
    builder.send(300_000, 1, core=1)
    timing = replace(PLAIN, noc_bytes_per_s=100 * GB)
    # Both at 50 GB/s until the first ends at 2 us; then 200 kB are left at 100 GB/s: 2 us more.
    expected = 4 * US
    assert execution_ps(builder.build(), timing=timing) == pytest.approx(expected, rel=RATE_ERROR)


def test_a_multicast_occupies_its_sender_once() -> None:
    one, many = ProgramBuilder(num_cores=8), ProgramBuilder(num_cores=8)
    one.send(100_000, 1)
    many.send(100_000, 7)
    assert execution_ps(one.build()) == execution_ps(many.build())


def test_a_barrier_costs_more_with_more_cores() -> None:
    def barrier_ps(cores: int) -> int:
        builder = ProgramBuilder(num_cores=cores)
        builder.barrier()
        timing = replace(PLAIN, barrier_ns=300, barrier_core_ns=20)
        return execution_ps(builder.build(), timing=timing)

    assert barrier_ps(1) == 320 * NS
    assert barrier_ps(14) == 580 * NS


def test_double_buffering_hides_the_shorter_of_load_and_compute() -> None:
    builder = ProgramBuilder()
    tiles = 12
    computed: list[int] = []
    for tile in range(tiles):
        room = (computed[tile - 2],) if tile >= 2 else ()
        loaded = builder.read(25_000, room)
        computed.append(builder.matmul(32, 32, 32 * 50, (loaded,)))
    # Each load takes 1000 ns, each product 400: the loads run without a gap, one product is left.
    expected = (tiles * 1000 + 400) * NS
    assert execution_ps(builder.build()) == pytest.approx(expected, rel=RATE_ERROR)


def test_two_instances_share_a_saturated_ddr() -> None:
    def rate(instances: int) -> float:
        builder = ProgramBuilder(num_cores=7)
        for core in range(7):
            builder.read(10_000_000, core=core)
        backend = SimulatorBackend(device(Sku.STD), PLAIN)
        return backend.run(
            builder.build(), RunOptions(instances=instances, set_size=2)
        ).inferences_per_s

    # Seven cores at 25 GB/s ask for more than the 100 GB/s there are: 70 MB take 700 us.
    assert rate(1) == pytest.approx(1e6 / 700, rel=1e-4)
    assert rate(2) == pytest.approx(1e6 / 700, rel=1e-4)


def test_instances_that_share_nothing_scale() -> None:
    builder = ProgramBuilder()
    builder.matmul(320, 320, 320)
    backend = SimulatorBackend(device(Sku.STD), PLAIN)
    one = backend.run(builder.build(), RunOptions(instances=1, set_size=3))
    all_ = backend.run(builder.build(), RunOptions(instances=14, set_size=3))
    assert all_.inferences_per_s == pytest.approx(14 * one.inferences_per_s, rel=1e-3)


@pytest.mark.parametrize("set_size", [1, 2, 10])
def test_pcie_bounds_a_small_network(set_size: int) -> None:
    builder = ProgramBuilder(batch_size=4, input_bytes=4 * 600_000)
    builder.matmul(32, 32, 32)
    backend = SimulatorBackend(device(Sku.STD), PLAIN)
    rate = backend.run(builder.build(), RunOptions(instances=7, set_size=set_size))
    # 10 GB/s over 600,000 bytes an image.
    assert rate.inferences_per_s == pytest.approx(10 * GB / 600_000, rel=2e-3)
    assert rate.busy.pcie_in == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize(("instances", "set_size"), [(1, 1), (1, 4), (7, 3), (14, 10)])
def test_littles_law(instances: int, set_size: int) -> None:
    builder = ProgramBuilder(batch_size=2, input_bytes=10_000)
    builder.vector(40_000, VectorOp.ADD, (builder.matmul(320, 320, 320),))
    backend = SimulatorBackend(device(Sku.STD), replace(PLAIN, host_prepare_ns=3000))
    run = backend.run(builder.build(), RunOptions(instances=instances, set_size=set_size))
    outstanding = instances * set_size * 2
    assert run.latency.mean_s * run.inferences_per_s == pytest.approx(outstanding, rel=1e-3)


def test_a_lone_inference_passes_every_stage() -> None:
    builder = ProgramBuilder(input_bytes=10_000, output_bytes=20_000)
    builder.matmul(32, 32, 32)
    timing = replace(
        PLAIN,
        host_prepare_ns=100,
        host_submit_ns=200,
        host_finish_ns=300,
        host_gap_ns=5000,
        launch_ns=700,
        pcie_latency_ns=50,
    )
    run = record(builder.build(), ONE, timing)
    trip = (run.done_at - run.asked_at)[0, run.warmup]
    # 1 us in and 2 us out over PCIe at 10 GB/s, a latency each way, 8 ns of work.
    expected = (100 + 200 + 1000 + 50 + 700 + 8 + 2000 + 50 + 300) * NS
    assert trip == pytest.approx(expected, rel=RATE_ERROR)
    between = np.diff(run.asked_at[0, : run.warmup + 2])[-1]
    assert between == pytest.approx(expected + 5000 * NS, rel=RATE_ERROR)


def test_one_input_buffer_waits_for_the_execution() -> None:
    def rate(double: bool) -> float:
        builder = ProgramBuilder(input_bytes=100_000, double_buffered_inputs=double)
        builder.vector(10_000, VectorOp.ADD)
        backend = SimulatorBackend(device(Sku.STD), PLAIN)
        return backend.run(builder.build(), RunOptions(instances=1, set_size=4)).inferences_per_s

    # 10 us to bring an input and 10 us to work on it: side by side, or one after the other.
    assert rate(True) == pytest.approx(1e6 / 10, rel=1e-2)
    assert rate(False) == pytest.approx(1e6 / 20, rel=1e-2)


def test_the_published_values_are_complete() -> None:
    assert len(PUBLISHED.vector_millicycles) == len(VectorOp)
    assert PUBLISHED.id != PLAIN.id


def pipeline() -> Program:
    """Two stages of a core each, of 80 and 120 ns."""
    builder = ProgramBuilder(num_cores=2, stage_cores=(1, 1))
    builder.matmul(32, 32, 32 * 10, core=0)
    builder.matmul(32, 32, 32 * 15, core=1)
    return builder.build()


def test_a_pipeline_takes_the_longest_stage_an_inference_and_all_stages_a_round_trip() -> None:
    busy = record(pipeline(), RunOptions(instances=1, set_size=4, inferences=8))
    ends = busy.ended_at[0, busy.warmup : busy.warmup + 6]
    assert set(np.diff(ends).tolist()) == {120 * NS}
    # A full pipeline: both passes that an inference takes part in last 120 ns.
    assert (busy.ended_at - busy.begun_at)[0, busy.warmup] == 240 * NS


def test_a_lone_inference_waits_for_its_own_stages_only() -> None:
    assert execution_ps(pipeline()) == (80 + 120) * NS
