"""Each knob does to the program what its documentation says, by counts that follow from that."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from compiler.errors import DoesNotFitError
from compiler.options import CompileOptions, violations
from compiler.program import Program, TaskKind
from compiler.schedule.schedule import compile_graph
from compiler.target import Sku, device
from tests.oracles.graphs import GraphBuilder, attention, funnel, small_cnn

STD = device(Sku.STD)
KIB = 1 << 10


def compiled(batch: int = 1, size: int = 448, **knobs: object) -> Program:
    options = {"num_cores": 1, "batch_size": batch} | knobs
    graph = small_cnn(batch, size=size, channels=64)
    return compile_graph(graph, CompileOptions(**options), STD)  # type: ignore[arg-type] # kwargs of a test


def reads(program: Program, activations: bool) -> np.ndarray:
    tasks = program.tasks
    wanted = (tasks.kind == TaskKind.READ) & (tasks.w1 == int(activations))
    return np.asarray(tasks.w0[wanted])


@pytest.mark.parametrize("granularity", [512, 1024, 2048])
def test_what_does_not_fit_passes_in_tiles_of_the_split_granularity(granularity: int) -> None:
    program = compiled(size_split_granularity_kib=granularity)
    largest = int(reads(program, activations=True).max())
    assert largest <= granularity * KIB
    # Tiles are equal parts of 448 x 448 x 64 in fp16, as large as the limit lets them be.
    whole = 448 * 448 * 64 * 2
    assert largest > whole // (-(-whole // (granularity * KIB)) + 1)


def test_a_smaller_working_set_means_smaller_tiles() -> None:
    half = compiled(batch=2, size=112, vtcm_working_set_limit_ratio=0.1)
    free = compiled(batch=2, size=112)
    limit = int(0.1 * STD.vtcm_usable_bytes)
    assert max(layer.vtcm_bytes for layer in free.layers) > limit
    assert max(layer.tile_bytes for layer in half.layers) < max(
        layer.tile_bytes for layer in free.layers
    )
    assert sum(layer.spill_bytes for layer in half.layers) > 0


def test_a_working_set_that_nothing_fits_is_refused_with_both_numbers() -> None:
    builder = GraphBuilder("wide", 1)
    x = builder.input("x", (1, 4096))
    graph = builder.build(builder.dense(x, 4096))
    options = CompileOptions(num_cores=1, vtcm_working_set_limit_ratio=0.001)
    with pytest.raises(DoesNotFitError, match=r"needs .* MiB .* has 0\.0 MiB; raise the VTCM"):
        compile_graph(graph, options, STD)


def test_a_delayed_deallocation_keeps_room_and_makes_fewer_wait() -> None:
    at_once = compiled(batch=4, size=60, allocator_dealloc_delay=0)
    later = compiled(batch=4, size=60, allocator_dealloc_delay=10)
    waiting = [sum("takes the room" in layer.why for layer in p.layers) for p in (at_once, later)]
    assert waiting[1] <= waiting[0]
    assert later.memory.vtcm_peak_bytes >= at_once.memory.vtcm_peak_bytes


def test_depth_first_takes_parts_of_the_batch_through_the_model() -> None:
    # Four samples of 4.6 MB a layer spill; one at a time does not.
    spilling = compiled(batch=4, size=190, depth_first=False)
    deep = compiled(batch=4, size=190, depth_first=True)
    names = [layer.name for layer in deep.layers]
    assert len(set(names)) < len(names)
    assert len({layer.name for layer in spilling.layers}) == len(spilling.layers)
    spilled = [sum(layer.spill_bytes for layer in p.layers) for p in (spilling, deep)]
    assert spilled[1] < spilled[0]


def test_early_layers_go_in_smaller_parts_than_those_with_the_weights() -> None:
    """Eight samples make 14 MB of early activations, the later layers have 9.8 MB of weights."""
    program = compile_graph(funnel(8), CompileOptions(num_cores=1, batch_size=8), STD)
    times = Counter(layer.name for layer in program.layers)
    assert times["conv_1"] > times["conv_4"] > 1
    # Working through parts of two whole, the weights alone come four times.
    assert reads(program, activations=False).sum() < 4 * 9.4e6


def test_depth_first_memory_bounds_what_the_parts_fill() -> None:
    deep = compiled(batch=8, size=60, num_cores=4, depth_first_mem_mib=8)
    parts = [layer for layer in deep.layers if [x.name for x in deep.layers].count(layer.name) > 1]
    assert parts
    assert max(layer.vtcm_bytes for layer in parts) <= (8 << 20) // 4


@pytest.mark.parametrize("combined", [None, True, False])
def test_combined_inputs_are_one_transfer(combined: bool | None) -> None:
    builder = GraphBuilder("two", 1)
    left, right = builder.input("a", (1, 64)), builder.input("b", (1, 64))
    graph = builder.build(builder.op("Add", (left, right), (1, 64)))
    options = CompileOptions(num_cores=1, combine_inputs=combined, combine_outputs=combined)
    program = compile_graph(graph, options, STD)
    assert program.input_transfers == (2 if combined is False else 1)
    assert program.output_transfers == 1


def test_clusters_work_on_layers_of_their_own() -> None:
    graph = attention(4)
    options = CompileOptions(num_cores=4, batch_size=4, sdp_cluster_sizes=(1, 3))
    program = compile_graph(graph, options, STD)
    assert program.stage_cores == (1, 3)
    owners = {
        name: set(program.tasks.core[program.tasks.layer == at].tolist())
        for at, name in enumerate(layer.name for layer in program.layers)
    }
    assert all(cores <= {0} or cores <= {1, 2, 3} for cores in owners.values())
    products = program.tasks.kind == TaskKind.MATMUL
    assert {0, 1, 2, 3} == set(program.tasks.core[products].tolist())


@pytest.mark.parametrize(
    ("knobs", "told"),
    [
        ({"size_split_granularity_kib": 100}, "is 100, must be 512 to 2048"),
        ({"allocator_dealloc_delay": 11}, "is 11, must be 0 to 10"),
        ({"depth_first_mem_mib": 4}, "is 4, must be 8 to 32"),
        ({"vtcm_working_set_limit_ratio": 1.5}, "is 1.5, must be above 0"),
        ({"sdp_cluster_sizes": (1, 2)}, "add up to 3, cores is 4"),
        ({"depth_first": False, "depth_first_mem_mib": 8}, "depth-first is off"),
        ({"sdp_cluster_sizes": (1, 3), "mos": 2}, "smallest cluster has 1 cores"),
    ],
)
def test_values_out_of_range_are_told(knobs: dict[str, object], told: str) -> None:
    found = violations(CompileOptions(num_cores=4, **knobs), STD)  # type: ignore[arg-type] # kwargs
    assert any(told in text for text in found)
