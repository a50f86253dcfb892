"""Branches and loops whose course is known at compile time, as plain calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Body, Call
from compiler.frontend.made import Expansion, Maker
from compiler.frontend.tensors import literal
from compiler.ir.graph import Array, Constant

ValueOf = Callable[[str], Array | None]

# assumed: as many calls as no model tried comes near; a loop that unrolls to more would make
# compiling take minutes.
_MAX_UNROLLED_CALLS = 100_000

_CONTROL_FLOW = frozenset({"If", "Loop", "SequenceMap"})


def is_control_flow(call: Call) -> bool:
    """Whether the call runs bodies instead of computing something by itself."""
    return call.op in _CONTROL_FLOW and not call.domain


def expand(call: Call, value_of: ValueOf) -> Expansion:
    """What a control-flow call does, when `value_of` knows what decides it.

    Raises `UnsupportedError` when the course depends on an input of the model.
    """
    if call.op == "If":
        return _branch(call, value_of)
    if call.op == "Loop":
        return _unrolled(call, value_of)
    raise UnsupportedError(f"{call.label} is not supported; export the model with it unrolled")


def is_decided(call: Call, value_of: ValueOf) -> bool:
    """Whether the values are known that decide the course of a control-flow call."""
    deciding = call.inputs[:1] if call.op == "If" else call.inputs[:2]
    return all(value_of(name) is not None for name in deciding if name)


def _branch(call: Call, value_of: ValueOf) -> Expansion:
    condition = value_of(call.inputs[0]) if call.inputs else None
    if condition is None:
        raise UnsupportedError(
            f"{call.label} depends on an input of the model; a constant condition would be "
            "resolved: export the model for one branch"
        )
    attribute = "then_branch" if _single(call, condition) else "else_branch"
    body = _body(call, attribute, inputs=0, least_outputs=len(call.outputs))
    left_out = ("",) * (len(body.outputs) - len(call.outputs))
    return instance(call, body, f"{call.name}/{attribute}/", {}, (*call.outputs, *left_out))


def _unrolled(call: Call, value_of: ValueOf) -> Expansion:
    carried = call.inputs[2:]
    least_outputs = max(len(call.outputs), len(carried)) + 1
    body = _body(call, "body", inputs=len(carried) + 2, least_outputs=least_outputs)
    trips = _trips(call, body, value_of)
    constants: dict[str, Constant] = {}
    calls: list[Call] = []
    scans: list[tuple[str, ...]] = []
    condition = f"{call.name}/condition"
    constants[condition] = literal(np.asarray(True))
    for trip in range(trips):
        prefix = f"{call.name}/{trip}/"
        constants[f"{prefix}trip"] = literal(np.asarray(trip, dtype=np.int64))
        given = dict(zip(body.inputs, (f"{prefix}trip", condition, *carried), strict=True))
        made = tuple(f"{prefix}output_{at}" for at in range(len(body.outputs)))
        expansion = instance(call, body, prefix, given, made)
        calls.extend(expansion.calls)
        constants.update(expansion.constants)
        carried, scanned = made[1 : len(carried) + 1], made[len(carried) + 1 :]
        scans.append(scanned)
    results = _results(call, carried, scans)
    return Expansion((*calls, *results.calls), {**constants, **results.constants})


def _body(call: Call, attribute: str, *, inputs: int, least_outputs: int) -> Body:
    body = call.bodies.get(attribute)
    if body is None or len(body.inputs) != inputs or len(body.outputs) < least_outputs:
        raise ModelError(
            f"{call.label} has no {attribute} with {inputs} inputs and {least_outputs} outputs"
        )
    return body


def _trips(call: Call, body: Body, value_of: ValueOf) -> int:
    limit = value_of(call.inputs[0]) if call.inputs[0] else None
    start = value_of(call.inputs[1]) if call.inputs[1] else np.asarray(True)
    if limit is None or start is None or not _runs_through(body):
        raise UnsupportedError(
            f"{call.label} has no constant number of trips; a loop with a constant trip count "
            "and no early exit would be unrolled: export it so"
        )
    trips = max(0, _single(call, limit)) if _single(call, start) else 0
    check_trips(call, trips, body)
    return trips


def check_trips(call: Call, trips: int, body: Body) -> None:
    """Refuse a loop that would become more calls than can be compiled."""
    if trips * max(1, len(body.calls)) > _MAX_UNROLLED_CALLS:
        raise UnsupportedError(
            f"{call.label} unrolls to {trips} x {len(body.calls)} nodes, the limit is "
            f"{_MAX_UNROLLED_CALLS}; shorten the loop or run it on the host"
        )


def _runs_through(body: Body) -> bool:
    """Whether the body always asks for the next trip."""
    sources = {call.outputs[0]: call for call in body.calls if call.outputs}
    name = body.outputs[0]
    while name in sources and sources[name].op == "Identity" and sources[name].inputs:
        name = sources[name].inputs[0]
    held = sources[name].literal if name in sources else body.constants.get(name)
    if held is None or held.type.elements != 1:
        return name == body.inputs[1]
    return bool(held.load().reshape(-1)[0])


def _single(call: Call, value: Array) -> int:
    if value.size != 1:
        raise ModelError(f"{call.label} is decided by {value.size} values, not by one")
    return int(value.reshape(-1)[0])


def _results(call: Call, carried: tuple[str, ...], scans: list[tuple[str, ...]]) -> Expansion:
    maker = Maker(call)
    for source, target in zip(carried, call.outputs, strict=False):
        if target:
            maker.op("Identity", (source,), target)
    for at, target in enumerate(call.outputs[len(carried) :]):
        if target and not scans:
            raise UnsupportedError(f"{call.label} makes no trip, so '{target}' has no elements")
        if target:
            maker.stack(tuple(scan[at] for scan in scans), 0, target)
    return maker.expansion()


def instance(
    call: Call, body: Body, prefix: str, given: Mapping[str, str], results: tuple[str, ...]
) -> Expansion:
    """A copy of `body` under new names: `given` for its inputs, `results` for its outputs."""
    own = [*body.constants, *(name for item in body.calls for name in item.outputs if name)]
    names = {name: f"{prefix}{name}" for name in own} | dict(given)
    maker = Maker(call)
    taken: set[str] = set()
    for source, target in zip(body.outputs, results, strict=True):
        if not target:
            continue
        if source in given or source not in names or source in taken:
            maker.op("Identity", (names.get(source, source),), target)
        else:
            names[source] = target
            taken.add(source)
    calls = [_renamed(item, names, prefix) for item in body.calls]
    constants = {names[name]: constant for name, constant in body.constants.items()}
    return Expansion((*calls, *maker.calls), constants)


def _renamed(call: Call, names: Mapping[str, str], prefix: str) -> Call:
    return replace(
        call,
        name=f"{prefix}{call.name}",
        inputs=tuple(names.get(name, name) for name in call.inputs),
        outputs=tuple(names.get(name, name) for name in call.outputs),
        bodies={key: _renamed_captures(body, names) for key, body in call.bodies.items()},
    )


def _renamed_captures(body: Body, names: Mapping[str, str]) -> Body:
    own = {*body.inputs, *body.constants, *(name for call in body.calls for name in call.outputs)}
    outer = {name: target for name, target in names.items() if name not in own}
    return replace(
        body,
        outputs=tuple(outer.get(name, name) for name in body.outputs),
        calls=tuple(replace(_renamed(call, outer, ""), name=call.name) for call in body.calls),
    )
