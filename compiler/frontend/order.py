"""What comes before computing: every name defined once, an order, nothing that is dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from compiler.errors import ModelError
from compiler.frontend.calls import Body, Call
from compiler.frontend.shapes import least_outputs


def ordered(body: Body, outer: frozenset[str] = frozenset()) -> Body:
    """`body` with its calls in topological order, without those that no output needs.

    So are the bodies in it; `outer` are the names that it may use without defining them. Calls
    that are in order keep it. Raises `ModelError` for a name that is defined twice or not at all,
    and for a cycle.
    """
    names = outer | _defined(body, outer)
    nested = tuple(_with_ordered_bodies(call, names) for call in body.calls)
    inside = replace(body, calls=nested)
    calls = nested if is_sorted(inside, outer) else _sorted(inside)
    return replace(body, calls=live(calls, body.outputs))


def _with_ordered_bodies(call: Call, names: frozenset[str]) -> Call:
    if not call.bodies:
        return call
    return replace(call, bodies={key: ordered(body, names) for key, body in call.bodies.items()})


def _defined(body: Body, outer: frozenset[str]) -> frozenset[str]:
    """The names that the body defines; checks that it defines each once, and all that it uses."""
    written = [name for call in body.calls for name in call.outputs if name]
    counts = Counter([*body.inputs, *body.constants, *written])
    for name, count in counts.items():
        if count > 1:
            raise ModelError(f"value '{name}' is defined {count} times ({_definers(body, name)})")
    for call in body.calls:
        for name in call.reads:
            if name not in counts and name not in outer:
                raise ModelError(f"{call.label} reads '{name}', which nothing defines")
    for name in body.outputs:
        if name not in counts and name not in outer:
            raise ModelError(f"graph output '{name}' is defined by no node")
    return frozenset(counts)


def _definers(body: Body, name: str) -> str:
    found = [f"node '{call.name}'" for call in body.calls if name in call.outputs]
    found += ["a graph input"] * body.inputs.count(name)
    found += ["an initializer"] * (name in body.constants)
    return ", ".join(found) + "; give each value its own name"


def is_sorted(body: Body, outer: frozenset[str] = frozenset()) -> bool:
    """Whether each call comes after those whose results it reads."""
    known = {*body.inputs, *body.constants, *outer}
    for call in body.calls:
        if not known.issuperset(call.reads):
            return False
        known.update(call.outputs)
    return True


def _sorted(body: Body) -> tuple[Call, ...]:
    """Depth first from each call in file order, so that what is in order stays so."""
    source = {name: call for call in body.calls for name in call.outputs if name}
    done: dict[int, Call] = {}
    for root in body.calls:
        path = [root]
        on_path = {id(root)}
        while path:
            call = path[-1]
            missing = _first_missing(call, source, done)
            if missing is None:
                on_path.discard(id(path.pop()))
                done[id(call)] = call
            elif id(missing) in on_path:
                raise _cycle(path[path.index(missing) :])
            else:
                path.append(missing)
                on_path.add(id(missing))
    return tuple(done.values())


def _first_missing(call: Call, source: dict[str, Call], done: dict[int, Call]) -> Call | None:
    if id(call) in done:
        return None
    needed = (source[name] for name in call.reads if name in source)
    return next((item for item in needed if id(item) not in done), None)


def _cycle(calls: Iterable[Call]) -> ModelError:
    names = ", ".join(f"'{call.name}'" for call in calls)
    return ModelError(f"the graph has a cycle through nodes {names}; break it and export anew")


def live(calls: tuple[Call, ...], outputs: tuple[str, ...]) -> tuple[Call, ...]:
    """The calls that `outputs` need, in the same order, without results that nothing reads."""
    needed = set(outputs)
    kept: list[Call] = []
    for call in reversed(calls):
        if not needed.isdisjoint(call.outputs):
            kept.append(_trimmed(call, needed))
            needed.update(call.reads)
    return tuple(reversed(kept))


def _trimmed(call: Call, needed: set[str]) -> Call:
    """`call` without last results that nothing reads, such as the mask of a Dropout.

    A Split keeps all: their number says how it splits. So do calls with bodies.
    """
    if call.op == "Split" or call.bodies or len(call.outputs) < 2:
        return call
    least = least_outputs(call)
    count = max(least, *(at for at, name in enumerate(call.outputs, 1) if name in needed))
    return replace(call, outputs=call.outputs[:count])
