"""Where an inference spends its time, and what each layer and operation has of it, as shown.

Times are of one inference of the whole batch. Cycles are those for which an engine is held, of a
mean core of the instance. "path" is the time for which the end of the execution waited for just
that: these add up to the execution.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from compiler.program import Engine, Layer
from configurator import tables
from configurator.tables import grid
from runtime_sim.profile.operations import Memory, Operation
from runtime_sim.profile.path import PARTS, Part
from runtime_sim.profile.profile import Group, Profile
from runtime_sim.profile.stages import PART_OF, Stage

_KIB = 1 << 10
_US_PER_S = 1e6
_HUNDREDTHS = 10_000

ON_CORES = (Part.HMX, Part.HVX, Part.DDR, Part.NETWORK, Part.SYNC, Part.ISSUE)
"""Parts that a path through an execution can have."""

_WORDS = {
    Part.HMX: "products",
    Part.HVX: "vector work",
    Part.DDR: "transfers from and to DDR",
    Part.NETWORK: "transfers between cores",
    Part.SYNC: "barriers, and the semaphores of a launch",
    Part.ISSUE: "scalar work that starts products, vector work and transfers",
    Part.PCIE: "inputs and outputs on their way",
    Part.HOST: "preparing, submitting, finishing",
    Part.QUEUE: "waiting behind other inferences",
}
T = TypeVar("T")

_DMA = (Engine.LOAD, Engine.STORE)


def document(found: Profile) -> dict[str, object]:
    """What `profile --json` prints: what `run` does, and `profile`.

    `total_ps` are integers, of all `inferences` together; parts and stages each add up to the
    total of the round trip, and the paths of layers to that of the execution.
    """
    options = found.options
    run = tables.run_document(found.program, options.instances, options.set_size, found.measured)
    return run | {"profile": _profile_document(found)}


def _profile_document(found: Profile) -> dict[str, object]:
    layers = zip(found.program.layers, found.layers, strict=True)
    return {
        "inferences": found.inferences,
        "round_trip": _time(found, found.round_trip_ps, found.round_trip_ps),
        "execution": _time(found, found.execution_ps, found.round_trip_ps),
        "parts": {
            part.value: _time(found, spent_ps, found.round_trip_ps)
            for part, spent_ps in zip(PARTS, found.part_ps, strict=True)
        },
        "stages": {
            stage_name(stage): _time(found, found.stage_ps[stage], found.round_trip_ps)
            for stage in Stage
        },
        "layers": [
            {
                "name": layer.name,
                "op": layer.op,
                "vtcm_bytes": layer.vtcm_bytes,
                **_group_document(found, group),
            }
            for layer, group in layers
        ],
        "operators": [
            {"op": name, **_group_document(found, group)} for name, group in found.operators
        ],
        "operations": [
            {
                "operation": operation.name,
                "memory": operation.memory.name.lower(),
                "type": operation.type_,
                **_group_document(found, group),
            }
            for operation, group in found.operations
        ],
    }


def _time(found: Profile, total_ps: int, whole_ps: int) -> dict[str, int | float]:
    """A share is 0 where nothing takes time."""
    return {
        "total_ps": total_ps,
        "us": found.mean_s(total_ps) * _US_PER_S,
        "share": total_ps / whole_ps if whole_ps else 0.0,
    }


def _group_document(found: Profile, group: Group) -> dict[str, object]:
    cores = found.program.options.num_cores
    return {
        "engine": group.engine.name.lower(),
        "tasks": group.tasks,
        "cycles": {
            engine.name.lower(): found.mean_cycles(group.held_ps[engine]) / cores
            for engine in Engine
        },
        "path": _time(found, sum(group.path_ps), found.execution_ps),
        "path_us": {
            part.value: found.mean_s(spent_ps) * _US_PER_S
            for part, spent_ps in zip(PARTS, group.path_ps, strict=True)
            if part in ON_CORES
        },
        "macs": group.macs,
        "made_bytes": group.made_bytes,
        "ddr_read_bytes": group.read_bytes,
        "ddr_written_bytes": group.written_bytes,
        "sent_bytes": group.sent_bytes,
    }


def stage_name(stage: Stage) -> str:
    """As it is shown, like `buffer wait`."""
    return stage.name.lower().replace("_", " ")


def text(found: Profile, most_layers: int | None) -> str:
    """What `profile` prints; of the layers those with the most of the path, `None` for all."""
    options = found.options
    run = tables.run_text(found.program, options.instances, options.set_size, found.measured)
    mean = f"{us_text(found, found.round_trip_ps)} us from call to result"
    execution = f"{us_text(found, found.execution_ps)} us on the cores"
    return "\n\n".join(
        [
            run,
            f"Where an inference spends its time: {mean}, {execution}\n{_parts_text(found)}",
            f"From call to result\n{_stages_text(found)}",
            f"Operators\n{_operators_text(found)}",
            f"Operations of the cores\n{_operations_text(found)}",
            f"Layers{_shown_of(found, most_layers)}\n{_layers_text(found, most_layers)}",
            "path: how long the end of the execution waited for just that, and its share of the\n"
            "execution. Cycles: how long the engine is held, of a mean core, in thousands.",
        ]
    )


def _shown_of(found: Profile, most: int | None) -> str:
    if most is None or most >= len(found.layers):
        return ""
    return f" (the {most} with the longest path of {len(found.layers)}; --layers all for all)"


def us_text(found: Profile, total_ps: int) -> str:
    """Microseconds of one inference."""
    return f"{found.mean_s(total_ps) * _US_PER_S:,.3f}"


def percents(values: Sequence[int]) -> list[str]:
    """Shares of the sum to the hundredth of a percent, rounded so that they add up to 100 %."""
    whole = sum(values)
    if not whole:
        return ["-"] * len(values)
    floors = [value * _HUNDREDTHS // whole for value in values]
    left = [value * _HUNDREDTHS % whole for value in values]
    by_rest = sorted(range(len(values)), key=lambda at: -left[at])
    for at in by_rest[: _HUNDREDTHS - sum(floors)]:
        floors[at] += 1
    return [f"{hundredths / 100:.2f} %" for hundredths in floors]


def _parts_text(found: Profile) -> str:
    on_cores = [sum(group.path_ps[at] for group in found.layers) for at in range(len(PARTS))]
    columns = zip(PARTS, found.part_ps, percents(found.part_ps), percents(on_cores), strict=True)
    rows = [
        [
            part.value,
            us_text(found, spent_ps),
            share,
            of_execution if part in ON_CORES else "",
            _WORDS[part],
        ]
        for part, spent_ps, share, of_execution in columns
    ]
    last = ["total", us_text(found, sum(found.part_ps)), "100.00 %", "100.00 %", ""]
    return grid([["", "us", "share", "of execution", ""], *rows, last], left=(0, 4))


def _stages_text(found: Profile) -> str:
    columns = zip(Stage, found.stage_ps, percents(found.stage_ps), strict=True)
    rows = [
        [stage_name(stage), us_text(found, spent_ps), share, _part_name(stage)]
        for stage, spent_ps, share in columns
        if spent_ps
    ]
    return grid([["stage", "us", "share", "part"], *rows], left=(0, 3))


def _part_name(stage: Stage) -> str:
    return "the cores" if stage is Stage.EXECUTE else PART_OF[stage].value


_GROUP_TITLES = (
    "HMX kcyc",
    "HVX kcyc",
    "DMA kcyc",
    "made KiB",
    "DDR KiB",
    "sent KiB",
    "MMACs",
    "path us",
    "share",
)


def _group_cells(found: Profile, group: Group, share: str) -> list[str]:
    return [
        _kilocycles(found, group, (Engine.HMX,)),
        _kilocycles(found, group, (Engine.HVX,)),
        _kilocycles(found, group, _DMA),
        _kib(group.made_bytes),
        _kib(group.ddr_bytes),
        _kib(group.sent_bytes),
        f"{group.macs / 1e6:,.1f}" if group.macs else "-",
        us_text(found, sum(group.path_ps)),
        share,
    ]


def _kilocycles(found: Profile, group: Group, engines: Iterable[Engine]) -> str:
    held_ps = sum(group.held_ps[engine] for engine in engines)
    cycles = found.mean_cycles(held_ps) / found.program.options.num_cores
    return f"{cycles / 1e3:,.1f}" if cycles else "-"


def _kib(size_bytes: int) -> str:
    """Rounded up, so that what is there never reads as nothing."""
    return f"{-(-size_bytes // _KIB):,}" if size_bytes else "-"


def _operators_text(found: Profile) -> str:
    layers = [layer.op for layer in found.program.layers]
    rows = [
        [name, str(layers.count(name)), *_group_cells(found, group, share)]
        for (name, group), share in _by_path(found.operators, [g for _, g in found.operators])
    ]
    return grid([["operator", "layers", *_GROUP_TITLES], *rows])


def _operations_text(found: Profile) -> str:
    rows = [
        [*_operation_cells(operation), str(group.tasks), *_group_cells(found, group, share)]
        for (operation, group), share in _by_path(
            found.operations, [group for _, group in found.operations]
        )
    ]
    header = ["operation", "engine", "memory", "type", "tasks", *_GROUP_TITLES]
    return grid([header, *rows], left=(0, 1, 2, 3))


def _operation_cells(operation: Operation) -> list[str]:
    memory = "-" if operation.memory is Memory.NONE else operation.memory.name
    return [operation.name, operation.engine.name, memory, operation.type_ or "-"]


def _layers_text(found: Profile, most: int | None) -> str:
    layers = list(zip(found.program.layers, found.layers, strict=True))
    shown = _by_path(layers, found.layers)[:most]
    rows = [
        [*_layer_cells(layer, group), *_group_cells(found, group, share)]
        for (layer, group), share in shown
    ]
    header = ["layer", "op", "engine", "VTCM KiB", *_GROUP_TITLES]
    return grid([header, *rows], left=(0, 1, 2))


def _layer_cells(layer: Layer, group: Group) -> list[str]:
    return [layer.name, layer.op, group.engine.name, _kib(layer.vtcm_bytes)]


def _by_path(rows: Sequence[T], groups: Sequence[Group]) -> list[tuple[T, str]]:
    """Rows with their shares of the path, the longest first."""
    spent_ps = [sum(group.path_ps) for group in groups]
    shared = zip(rows, percents(spent_ps), spent_ps, strict=True)
    return [(row, share) for row, share, _ in sorted(shared, key=lambda each: -each[2])]
