"""Scan as the steps that it is made of: its number is the extent that it scans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Body, Call
from compiler.frontend.control_flow import check_trips, instance
from compiler.frontend.made import Expansion, Maker
from compiler.ir.graph import TensorType

# Since this opset, Scan has no batch axis and no sequence lengths (ONNX changelog, opset 9).
_OLDEST_OPSET = 9


def is_scan(call: Call) -> bool:
    """Whether the call is a Scan."""
    return call.op == "Scan" and not call.domain


def unrolled_scan(call: Call, types: Mapping[str, TensorType]) -> Expansion:
    """Its steps one after the other; `types` holds those of its operands."""
    scan = _Scan.of(call, types)
    maker = Maker(call)
    pieces = [
        _pieces(maker, name, axis, backward, scan.steps)
        for name, axis, backward in zip(scan.scanned, scan.axes, scan.backward, strict=True)
    ]
    calls, constants = list(maker.calls), dict(maker.constants)
    states, rows = scan.states, []
    for step in range(scan.steps):
        operands = (*states, *(piece[step] for piece in pieces))
        prefix = f"{call.name}/{step}/"
        made = tuple(f"{prefix}output_{at}" for at in range(len(scan.body.outputs)))
        given = dict(zip(scan.body.inputs, operands, strict=True))
        one = instance(call, scan.body, prefix, given, made)
        calls.extend(one.calls)
        constants.update(one.constants)
        states, row = made[: len(states)], made[len(states) :]
        rows.append(row)
    results = _results(call, scan, states, rows)
    return Expansion((*calls, *results.calls), {**constants, **results.constants})


@dataclass(frozen=True, slots=True)
class _Scan:
    """`states` and `scanned` are names; `axes` and `backward` go with `scanned`."""

    body: Body
    steps: int
    states: tuple[str, ...]
    scanned: tuple[str, ...]
    axes: tuple[int, ...]
    backward: tuple[bool, ...]

    @classmethod
    def of(cls, call: Call, types: Mapping[str, TensorType]) -> _Scan:
        if call.opset < _OLDEST_OPSET:
            raise UnsupportedError(
                f"{call.label} has a batch axis of its own, which Scan lost in opset "
                f"{_OLDEST_OPSET}; export the model with a newer opset"
            )
        count = call.attributes.get("num_scan_inputs")
        body = call.bodies.get("body")
        if body is None or not isinstance(count, int) or len(body.inputs) != len(call.inputs):
            raise ModelError(f"{call.label} has no body for its {len(call.inputs)} inputs")
        if not 0 < count <= len(call.inputs):
            raise ModelError(
                f"{call.label} scans {count} of its {len(call.inputs)} inputs; export it anew"
            )
        scanned = call.inputs[len(call.inputs) - count :]
        ranks = [len(types[name].shape) for name in scanned]
        axes = tuple(
            axis % max(rank, 1)
            for axis, rank in zip(_ints(call, "scan_input_axes", count), ranks, strict=True)
        )
        steps = {types[name].shape[axis] for name, axis in zip(scanned, axes, strict=True)}
        if len(steps) != 1:
            raise ModelError(f"{call.label} scans extents {sorted(steps)}, which must be equal")
        check_trips(call, max(steps), body)
        backward = tuple(map(bool, _ints(call, "scan_input_directions", count)))
        return cls(body, steps.pop(), call.inputs[: -count or None], scanned, axes, backward)


def _ints(call: Call, name: str, count: int) -> tuple[int, ...]:
    value = call.attributes.get(name)
    found = tuple(int(item) for item in value) if isinstance(value, tuple) else (0,) * count
    if len(found) != count:
        raise ModelError(f"{call.label}: {name} has {len(found)} values, not {count}")
    return found


def _pieces(maker: Maker, name: str, axis: int, backward: bool, steps: int) -> list[str]:
    parts = maker.split(name, (1,) * steps, axis) if steps > 1 else (name,)
    pieces = [maker.squeeze(part, axis) for part in parts]
    return pieces[::-1] if backward else pieces


def _results(
    call: Call, scan: _Scan, states: tuple[str, ...], rows: list[tuple[str, ...]]
) -> Expansion:
    maker = Maker(call)
    for source, target in zip(states, call.outputs, strict=False):
        if target:
            maker.op("Identity", (source,), target)
    stacked = call.outputs[len(states) :]
    axes = _ints(call, "scan_output_axes", len(stacked))
    backward = _ints(call, "scan_output_directions", len(stacked))
    for at, target in enumerate(stacked):
        column = tuple(row[at] for row in rows)
        if target:
            maker.stack(column[::-1] if backward[at] else column, axes[at], target)
    return maker.expansion()
