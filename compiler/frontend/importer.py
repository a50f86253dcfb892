"""A model with its symbols bound, as a graph with every shape known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Call
from compiler.frontend.control_flow import expand, is_control_flow
from compiler.frontend.groups import check_groups
from compiler.frontend.model import OnnxModel, Prepared, batch_symbol_of, prepared
from compiler.frontend.order import live
from compiler.frontend.quantized import check_scales
from compiler.frontend.rebatch import rebatched
from compiler.frontend.shapes import check_known
from compiler.frontend.symbols import Binding, bound_types
from compiler.frontend.tensors import dtype_of, empty
from compiler.frontend.walk import Bound, Walk
from compiler.ir.graph import Graph, Node, TensorType
from compiler.ir.verify import verify
from compiler.operators import WorkKind, find


def bind(
    model: OnnxModel,
    *,
    batch_size: int,
    symbols: tuple[tuple[str, int], ...] = (),
    batch_symbol: str | None = None,
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...] = (),
) -> Graph:
    """The model for `batch_size` samples, with `symbols` bound and everything folded that can be.

    `batch_symbol` is found by itself when it is not named. `input_shapes` stand for dims that the
    model leaves open without a name. A model with a fixed batch is changed to `batch_size` where
    that keeps the samples apart. Raises `SymbolError`, `ModelError`, `UnsupportedError`, or
    `DoesNotFitError` for a tensor that no card could hold.
    """
    batch = batch_symbol_of(model, batch_symbol)
    start = prepared(model)
    binding = Binding(batch_size, symbols, batch, input_shapes)
    bound = _bound(start, bound_types(start.inputs, binding))
    if batch is None:
        bound = _of_batch(start, bound, batch_size)
    graph = _graph(model, bound, batch_size)
    verify(graph)
    return graph


def _bound(start: Prepared, types: Mapping[str, TensorType]) -> Bound:
    nothing = {name: item for name, item in types.items() if item.elements == 0}
    walk = Walk({**start.types, **types}, start.constants, start.declared)
    calls: list[Call] = []

    def keep(call: Call) -> None:
        _check_supported(call, walk)
        made = walk.made(call)
        if made is not None:
            calls.append(made)

    for name, item in nothing.items():
        walk.define(_of_nothing(name), empty(item))
    walk.run((_without(call, nothing) for call in start.calls), keep)
    return Bound(live(tuple(calls), start.outputs), walk.types, walk.constants)


def _without(call: Call, nothing: Mapping[str, TensorType]) -> Call:
    """The call with constants for inputs of the model that have no elements."""
    if not any(name in nothing for name in call.inputs):
        return call
    names = (_of_nothing(name) if name in nothing else name for name in call.inputs)
    return replace(call, inputs=tuple(names))


def _of_nothing(name: str) -> str:
    return f"{name}/empty"


def _of_batch(start: Prepared, bound: Bound, batch_size: int) -> Bound:
    """`bound` for `batch_size` samples, when no symbol says where the samples are."""
    leading = {bound.types[item.name].shape[0] for item in start.inputs if not item.is_scalar}
    if leading in ({batch_size}, {0}):
        return bound
    if len(leading) == 1:
        names = tuple(item.name for item in start.inputs if not item.is_scalar)
        return rebatched(bound, names, start.outputs, leading.pop(), batch_size)
    if batch_size == 1:
        return bound
    raise UnsupportedError(
        f"batch size is {batch_size}, but the inputs share no first dim that could be the batch "
        f"(they start with {sorted(leading)}); use batch size 1, or name the batch symbol"
    )


_OF_UNKNOWN_NUMBER = frozenset({"NonZero", "Unique", "Compress", "NonMaxSuppression"})


def _check_supported(call: Call, walk: Walk) -> None:
    if is_control_flow(call):
        expand(call, walk.small_value)
    check_known(call)
    check_groups(call, walk.types)
    check_scales(call, walk.types)
    if call.op == "BitCast" and any(_bits_are_floats(call, walk)):
        raise UnsupportedError(
            f"{call.label} takes the bits of floats, which the device holds in fp16; run it on "
            "the host"
        )
    if call.op in _OF_UNKNOWN_NUMBER and not call.domain:
        raise UnsupportedError(
            f"{call.label}: how many results it gives depends on its values, a program has "
            "buffers of fixed shapes; cut the graph before this node and run the rest on the host"
        )
    row = find(call.domain, call.op)
    if row is None:
        raise UnsupportedError(
            f"{call.label}: the operator is not supported; cut the graph before this node and "
            "run the rest on the host, or export it as other operators"
        )
    if row.kind is WorkKind.FOLD:
        raise UnsupportedError(
            f"{call.label} gives a result whose shape depends on an input; make its operands "
            "constant, or cut the graph before this node and run the rest on the host"
        )


def _bits_are_floats(call: Call, walk: Walk) -> Iterator[bool]:
    for tensor_type in (walk.types[call.inputs[0]], *walk.inferred(call).values()):
        yield tensor_type.dtype.is_float


def _graph(model: OnnxModel, bound: Bound, batch_size: int) -> Graph:
    start = prepared(model)
    inputs = tuple(item.name for item in start.inputs)
    if not bound.calls:
        raise ModelError(
            f"{model.path}: every output is an input or a constant, so there is nothing to compile"
        )
    _check_output_types(start, bound)
    used = dict.fromkeys(inputs)
    for call in bound.calls:
        used.update(dict.fromkeys(filter(None, (*call.inputs, *call.outputs))))
    used.update(dict.fromkeys(start.outputs))
    constants = {name: bound.constants[name] for name in used if name in bound.constants}
    return Graph(
        name=model.name,
        inputs=inputs,
        outputs=start.outputs,
        nodes=_nodes(bound.calls),
        types=MappingProxyType({name: bound.types[name] for name in used}),
        constants=MappingProxyType(constants),
        batch_size=batch_size,
    )


def _check_output_types(start: Prepared, bound: Bound) -> None:
    for name, elem_type in start.output_types.items():
        stated, made = dtype_of(elem_type, f"output '{name}'"), bound.types[name].dtype
        if stated is not made:
            raise ModelError(
                f"output '{name}' is declared as {stated.value}, its node makes {made.value}; "
                "declare it so, or cast it"
            )


def _nodes(calls: tuple[Call, ...]) -> tuple[Node, ...]:
    """The calls as nodes, each under a name of its own."""
    taken: set[str] = set()
    nodes = []
    for at, call in enumerate(calls):
        name = call.name if call.name not in taken else f"{call.name}#{at}"
        taken.add(name)
        attributes = MappingProxyType(dict(call.attributes))
        nodes.append(
            Node(name, call.op, call.domain, call.opset, call.inputs, call.outputs, attributes)
        )
    return tuple(nodes)
