"""A graph run node after node, each as a whole: what a program must give, without a schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.execute.evaluate import evaluate
from compiler.execute.rounding import held_dtype, rounded
from compiler.execute.values import constants_of, fed, host_value, small_constants
from compiler.execute.wide import wide_values
from compiler.execute.work import Read, Work
from compiler.ir.graph import Array, Graph, Node
from compiler.regions import Box, whole


def run_graph(
    graph: Graph, inputs: Mapping[str, Array], *, rounds: bool = True
) -> dict[str, Array]:
    """The outputs by name; with `rounds` every float is rounded to fp16 as the device has it."""
    values = {name: fed(graph, inputs, name, rounds=rounds) for name in graph.inputs}
    constants = constants_of(graph, rounds=rounds)
    small = small_constants(graph)
    wide = wide_values(graph)
    for node in graph.nodes:
        memo: dict[str, tuple[Array, ...]] = {}
        for output, name in enumerate(node.outputs):
            if not name or name not in graph.types:
                continue
            read = _reader(node, values, constants)
            box = whole(graph.types[name].shape)
            result = evaluate(Work(node, graph.types, output, box, read, small, memo))
            is_float = held_dtype(graph.types[name]).kind == "f"
            values[name] = rounded(result) if rounds and is_float and name not in wide else result
    found = {**values, **{n: constants(n) for n in graph.outputs if graph.is_constant(n)}}
    return {name: host_value(graph, name, found[name]) for name in graph.outputs}


def _reader(node: Node, values: Mapping[str, Array], constants: Callable[[str], Array]) -> Read:
    def read(index: int, box: Box) -> Array:
        name = node.inputs[index]
        value = values[name] if name in values else constants(name)
        return value[tuple(slice(*ends) for ends in box)]

    return read
