"""What is shown of trials, runs, programs and devices: text for people, JSON and CSV shapes.

Latencies leave in milliseconds, rates in samples per second, shares as 0..1 (text: percent).
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from compiler.target import SOURCES, DeviceSpec
from configurator.records import Candidate, Study, TrialRow, TrialState, Workflow
from runtime_sim.measurement import Latency, Measurement, Source

if TYPE_CHECKING:  # numpy stays out of the commands that show stored trials
    from compiler.program import Program
    from configurator.trust import Trust

LATENCY_FIELDS = ("mean", "p50", "p90", "p95", "p99")
KNOBS = ("cores", "instances", "batch_size", "set_size", "ols", "mos", "multicast_weights")
CSV_COLUMNS = (
    "number",
    "state",
    *KNOBS,
    "inferences_per_s",
    *(f"latency_{field}_ms" for field in LATENCY_FIELDS),
    "reason",
)

MEASURED_BY = {
    Source.SIMULATOR: "simulated",
    Source.HARDWARE: "measured on a card",
    Source.NULL: "made-up numbers",
}

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A finished search as it is shown; `front` are the rows that no other row dominates.

    `stopped` is the reason in a word, for programs; `explanation` is for people.
    """

    study: Study
    rows: tuple[TrialRow, ...]
    best: TrialRow | None
    runners_up: tuple[TrialRow, ...]
    baseline: TrialRow | None
    front: tuple[TrialRow, ...]
    stopped: str
    explanation: str


def knob_values(candidate: Candidate) -> dict[str, int | bool | None]:
    """Every knob by its option name, with underscores; None where the compiler chooses."""
    chosen, run = candidate.compile, candidate.run
    return {
        "cores": chosen.num_cores,
        "instances": run.instances,
        "batch_size": chosen.batch_size,
        "set_size": run.set_size,
        "ols": chosen.ols,
        "mos": chosen.mos,
        "multicast_weights": chosen.multicast_weights,
    }


def latency_ms(latency: Latency) -> dict[str, float]:
    """Milliseconds by statistic, to the nanosecond."""
    return {field: round(getattr(latency, f"{field}_s") * 1e3, 6) for field in LATENCY_FIELDS}


def trial_document(row: TrialRow) -> dict[str, object]:
    """One trial; what it lacks is null."""
    measured = row.measurement
    return {
        "number": row.number,
        "state": row.state.value,
        **knob_values(row.candidate),
        "inferences_per_s": measured.inferences_per_s if measured else None,
        "latency_ms": latency_ms(measured.latency) if measured else None,
        "reason": row.reason or None,
    }


def trials_csv(rows: Iterable[TrialRow]) -> str:
    """One line a trial under `CSV_COLUMNS`; what a trial lacks is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(_csv_cells(row) for row in rows)
    return text.getvalue()


def outcome_document(outcome: Outcome) -> dict[str, object]:
    """What `tune --json` prints."""
    study = outcome.study
    return {
        "study": study.name,
        "workflow": study.workflow.value,
        "sku": study.sku.value,
        "model": study.model_path,
        "stopped": outcome.stopped,
        "trials": len(outcome.rows),
        "best": trial_document(outcome.best) if outcome.best else None,
        "baseline": trial_document(outcome.baseline) if outcome.baseline else None,
        "front": [trial_document(row) for row in outcome.front],
    }


def run_document(
    program: Program, instances: int, set_size: int, measured: Measurement
) -> dict[str, object]:
    """What `run --json` and `simulate --json` print."""
    options, trust = program.options, _trust(program, set_size, measured)
    return {
        "model": program.model_name,
        "sku": program.sku.value,
        "cores": options.num_cores,
        "instances": instances,
        "batch_size": options.batch_size,
        "set_size": set_size,
        "ols": options.ols,
        "mos": options.mos,
        "multicast_weights": options.multicast_weights,
        "symbols": dict(options.symbols),
        "inferences_per_s": measured.inferences_per_s,
        "latency_ms": latency_ms(measured.latency),
        "busy": _busy_shares(measured),
        "power_w": measured.power_w,
        "joules_per_inference": measured.joules_per_inference,
        "nsp_clock_mhz": measured.clock_hz and measured.clock_hz / 1e6,
        "inferences": measured.inferences,
        "duration_s": measured.duration_s,
        "interval_ips": trust and [trust.low_ips, trust.high_ips],
        "not_calibrated": list(trust.far) if trust else [],
        "source": measured.source.value,
        "backend_version": measured.backend_version,
        "timing_id": measured.timing_id,
    }


def program_document(program: Program, path: str) -> dict[str, object]:
    """What `compile --json` prints."""
    options, memory = program.options, program.memory
    return {
        "path": path,
        "model": program.model_name,
        "sku": program.sku.value,
        "cores": options.num_cores,
        "batch_size": options.batch_size,
        "ols": options.ols,
        "mos": options.mos,
        "multicast_weights": options.multicast_weights,
        "symbols": dict(options.symbols),
        "chosen": dict(program.chosen),
        "layers": len(program.layers),
        "tasks": len(program.tasks),
        "constants_bytes": memory.constants_bytes,
        "ddr_per_instance_bytes": memory.ddr_per_instance_bytes,
        "vtcm_peak_bytes": memory.vtcm_peak_bytes,
    }


def devices_document(devices: Iterable[DeviceSpec]) -> dict[str, object]:
    """What `devices --json` prints: values, and for each field the key of its source."""
    return {
        "devices": [_device_document(device) for device in devices],
        "sources": dict(SOURCES),
    }


def outcome_text(outcome: Outcome) -> str:
    """The end of a search: what was asked, best, runners-up, baseline, why it ended."""
    study = outcome.study
    ranked = [("best", outcome.best)] if outcome.best else []
    ranked += [(f"no. {place}", row) for place, row in enumerate(outcome.runners_up, start=2)]
    if outcome.baseline is not None:
        ranked.append(("baseline", outcome.baseline))
    lines = [[name, *_outcome_cells(outcome, row)] for name, row in ranked]
    header = ["", "trial", *_KNOB_TITLES, *_METRIC_TITLES, "gain"]
    return "\n".join(
        [
            one_line(
                f"{study.model_path} on {study.sku.value}, {study.workflow.value} "
                f"(study {study.name}, {_measured_by(outcome.rows)})"
            ),
            "",
            grid([header, *lines]),
            "",
            *_gain_notes(outcome),
            f"trials: {trial_counts(outcome.rows)}",
            f"stopped: {outcome.stopped} ({outcome.explanation})",
        ]
    )


def trials_text(rows: Sequence[TrialRow]) -> str:
    """One line a trial, reason last."""
    header = ["trial", "state", *_KNOB_TITLES, *_METRIC_TITLES, "reason"]
    lines = [
        [str(row.number), row.state.value, *_knob_cells(row), *_metric_cells(row), row.reason]
        for row in rows
    ]
    return grid([header, *lines], left=(1, len(header) - 1))


def trial_counts(rows: Iterable[TrialRow]) -> str:
    """Like `25 (23 complete, 2 infeasible)`."""
    counts = Counter(row.state for row in rows)
    named = [f"{counts[state]} {state.value}" for state in TrialState if counts[state]]
    return f"{counts.total()} ({', '.join(named)})" if named else "0"


def run_text(program: Program, instances: int, set_size: int, measured: Measurement) -> str:
    """A block on one simulated or measured run."""
    options = program.options
    latency = latency_ms(measured.latency)
    shares = _busy_shares(measured)
    return grid(
        [
            ["model", f"{program.model_name} on {program.sku.value}"],
            ["cores x instances", f"{options.num_cores} x {instances}"],
            ["batch size, set size", f"{options.batch_size}, {set_size}"],
            ["throughput", f"{measured.inferences_per_s:,.1f} inferences/s"],
            [
                "latency",
                "  ".join(f"{name} {value:.3f}" for name, value in latency.items()) + " ms",
            ],
            ["busy", "  ".join(f"{name} {share:.0%}" for name, share in shares.items())],
            *_power_lines(measured),
            *_trust_lines(_trust(program, set_size, measured)),
            ["how", f"{MEASURED_BY[measured.source]}, {measured.inferences:,} batches"],
        ],
        left=(0, 1),
    )


def _trust(program: Program, set_size: int, measured: Measurement) -> Trust | None:
    """`None` for what was measured on a card."""
    if measured.source is not Source.SIMULATOR:
        return None
    from configurator.trust import trust_in  # numpy

    return trust_in(program, set_size, measured.inferences_per_s)


def _trust_lines(trust: Trust | None) -> list[list[str]]:
    if trust is None:
        return []
    text = f"{trust.low_ips:,.0f} to {trust.high_ips:,.0f} inferences/s in 80 %"
    lines = [["on a card", f"{text} of calibrated cases"]]
    far = "; ".join(trust.far)
    return [*lines, ["not calibrated", f"{far}: it may be further off"]] if far else lines


def _power_lines(measured: Measurement) -> list[list[str]]:
    """Power, energy and clock; none where the backend does not tell."""
    joules = measured.joules_per_inference
    if measured.power_w is None or measured.clock_hz is None or joules is None:
        return []
    text = f"{measured.power_w:.1f} W, {joules * 1e3:,.2f} mJ an inference"
    return [["power", f"{text}, NSPs at {measured.clock_hz / 1e6:,.0f} MHz"]]


def program_text(program: Program, path: str) -> str:
    """A block on what a compilation made."""
    options, memory = program.options, program.memory
    chosen = "; ".join(f"{name}={value}" for name, value in program.chosen)
    return grid(
        [
            ["wrote", path],
            ["model", f"{program.model_name} for {program.sku.value}"],
            ["cores, batch size", f"{options.num_cores}, {options.batch_size}"],
            ["tasks", f"{len(program.tasks):,} in {len(program.layers):,} layers"],
            ["constants", f"{_mib(memory.constants_bytes)} in DDR, shared by all instances"],
            ["per instance", f"{_mib(memory.ddr_per_instance_bytes)} in DDR"],
            ["VTCM peak", f"{_mib(memory.vtcm_peak_bytes)} per core"],
            ["compiler chose", chosen or "nothing"],
        ],
        left=(0, 1),
    )


def devices_text(devices: Sequence[DeviceSpec]) -> str:
    """What differs between the SKUs as a table, what does not below it, then the sources."""
    shared, own = _shared_and_own(devices)
    header = ["sku", *own, "card"]
    lines = [
        [device.sku.value, *(_sourced(device, name) for name in own), device.title]
        for device in devices
    ]
    common = [[name, _sourced(devices[0], name)] for name in shared]
    keys = [[f"[{key}]", text] for key, text in SOURCES.items()]
    return "\n".join(
        [
            grid([header, *lines], left=(0, len(header) - 1)),
            "",
            "The same on every SKU:",
            grid(common, left=(0, 1)),
            "",
            "Sources:",
            grid(keys, left=(0, 1)),
        ]
    )


def one_line(text: str) -> str:
    """`text` with line breaks and control characters as blanks: nothing can move the cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def grid(lines: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Columns padded to equal width, two blanks apart; columns in `left` are left-aligned.

    Cells become one line each: names and reasons may hold anything.
    """
    lines = [[one_line(cell) for cell in line] for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]

    def cell(column: int, text: str) -> str:
        return text.ljust(widths[column]) if column in left else text.rjust(widths[column])

    return "\n".join(
        "  ".join(cell(column, text) for column, text in enumerate(line)).rstrip()
        for line in lines
    )


_KNOB_TITLES = ("cores", "instances", "batch", "set", "ols", "mos", "multicast")
_METRIC_TITLES = ("inf/s", "mean ms", "p50 ms", "p95 ms", "p99 ms")


def _csv_cells(row: TrialRow) -> list[object]:
    measured = row.measurement
    values: list[object] = [row.number, row.state.value, *knob_values(row.candidate).values()]
    if measured is None:
        metrics: list[object] = [None] * (1 + len(LATENCY_FIELDS))
    else:
        metrics = [measured.inferences_per_s, *latency_ms(measured.latency).values()]
    return [*values, *metrics, one_line(row.reason)]


def _busy_shares(measured: Measurement) -> dict[str, float]:
    return {field.name: getattr(measured.busy, field.name) for field in fields(measured.busy)}


def _device_document(device: DeviceSpec) -> dict[str, object]:
    values = {name: getattr(device, name) for name in _value_names()}
    return {
        "sku": device.sku.value,
        "title": device.title,
        **values,
        "sources": dict(device.sources),
    }


def _value_names() -> tuple[str, ...]:
    described = {"sku", "title", "sources"}
    return tuple(field.name for field in fields(DeviceSpec) if field.name not in described)


def _shared_and_own(devices: Sequence[DeviceSpec]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = _value_names()
    shared = tuple(
        name for name in names if len({_sourced(device, name) for device in devices}) == 1
    )
    return shared, tuple(name for name in names if name not in shared)


def _sourced(device: DeviceSpec, name: str) -> str:
    source = dict(device.sources).get(name)
    text = _quantity(name, getattr(device, name))
    return f"{text} [{source}]" if source else text


def _quantity(name: str, value: float) -> str:
    if name.endswith("_bytes_per_s"):
        return f"{value / 1e9:.4g} GB/s"
    if name.endswith("_hz"):
        return f"{value / 1e6:g} MHz"
    if name.endswith("_w"):
        return f"{value:g} W"
    if name.endswith("_bytes") and value >= _GIB:
        return f"{value / _GIB:g} GiB"
    if name.endswith("_bytes"):
        return f"{value:,} bytes"
    return f"{value:,}"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:,.2f} MiB"


def _knob_cells(row: TrialRow) -> list[str]:
    return [_knob_text(value) for value in knob_values(row.candidate).values()]


def _knob_text(value: int | bool | None) -> str:
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _metric_cells(row: TrialRow) -> list[str]:
    if row.measurement is None:
        return ["-"] * len(_METRIC_TITLES)
    latency = latency_ms(row.measurement.latency)
    shown = (latency[name] for name in ("mean", "p50", "p95", "p99"))
    rate = f"{row.measurement.inferences_per_s:,.1f}"
    return [rate, *(f"{value:.3f}" for value in shown)]


def _outcome_cells(outcome: Outcome, row: TrialRow) -> list[str]:
    factor = gain(outcome.study.workflow, row, outcome.baseline)
    shown = "-" if factor is None else f"{factor:.2f}x"
    return [str(row.number), *_knob_cells(row), *_metric_cells(row), shown]


def gain(workflow: Workflow, row: TrialRow, baseline: TrialRow | None) -> float | None:
    """How many times better than `baseline`; above 1 is better in either workflow.

    None where one of the two has no measurement.
    """
    if baseline is None or baseline.measurement is None or row.measurement is None:
        return None
    if workflow is Workflow.THROUGHPUT:
        return row.measurement.inferences_per_s / baseline.measurement.inferences_per_s
    return baseline.measurement.latency.mean_s / row.measurement.latency.mean_s


def _gain_notes(outcome: Outcome) -> list[str]:
    quantity = {
        Workflow.THROUGHPUT: "inferences per second over the baseline's",
        Workflow.LATENCY: "the baseline's mean latency over the row's",
    }
    note = f"gain: {quantity[outcome.study.workflow]}; baseline: all cores, one instance, batch 1"
    baseline = outcome.baseline
    if baseline is None:
        return [f"{note} (not measured)"]
    return [f"{note} ({one_line(baseline.reason)})" if baseline.reason else note]


def _measured_by(rows: Iterable[TrialRow]) -> str:
    """Like `simulated`; what was simulated must never pass for measured."""
    sources = {row.measurement.source for row in rows if row.measurement is not None}
    return " and ".join(sorted(MEASURED_BY[source] for source in sources)) or "no measurement"
