"""Runs a program for its values: each tile where the schedule has it, on real inputs.

Nothing here takes time; that is the simulator's business. What it shows is that the schedule is
right: a tile may read only what tasks before it have made, whatever order the engines take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from compiler.errors import ExecutionError
from compiler.execute.evaluate import evaluate
from compiler.execute.rounding import held_dtype, rounded
from compiler.execute.values import constants_of, fed, host_value, small_constants
from compiler.execute.wide import wide_values
from compiler.execute.work import Work
from compiler.ir.graph import Array, Graph, Node
from compiler.program import Layer, Program
from compiler.regions import Box
from compiler.schedule.extent import Extent, Region, boxes_of


def execute(
    program: Program,
    graph: Graph,
    inputs: Mapping[str, Array],
    order: Iterable[int] | None = None,
) -> dict[str, Array]:
    """The outputs by name, shaped and typed as the model says.

    `graph` is the one that the program was made from, `inputs` one array for each of its inputs.
    `order` is the order in which the program's tasks run, their own by default. Raises
    `ExecutionError` where an input is missing or misshaped, and where a task reads what none
    before it has made.
    """
    run = _Run(program, graph, inputs)
    tile_of = {int(task): tile for tile, task in enumerate(program.tiles.task)}
    for task in range(len(program.tasks)) if order is None else order:
        if task in tile_of:
            run.tile(task, tile_of[task])
    return run.outputs()


@dataclass(slots=True)
class _Storage:
    """A tensor's values, and which of its elements have been made."""

    values: Array
    made: Array


class _Run:
    """The memory of one execution."""

    def __init__(self, program: Program, graph: Graph, inputs: Mapping[str, Array]) -> None:
        self.program = program
        self.graph = graph
        self.nodes = {node.name: node for node in graph.nodes}
        self.inputs = {name: fed(graph, inputs, name) for name in graph.inputs}
        self.constants = constants_of(graph)
        self.small = small_constants(graph)
        self.wide = wide_values(graph)
        self.memo: dict[str, tuple[Array, ...]] = {}
        self.storages: dict[str, _Storage] = {}

    def tile(self, task: int, tile: int) -> None:
        """Make what one task makes."""
        layer = self.program.layers[int(self.program.tasks.layer[task])]
        tiles = self.program.tiles
        region = Region(
            int(tiles.row_start[tile]),
            int(tiles.row_end[tile]),
            int(tiles.column_start[tile]),
            int(tiles.column_end[tile]),
        )
        storage = self._storage(layer)
        for box in boxes_of(Extent(layer.output_shape, layer.channel_axis), region):
            at = tuple(slice(*ends) for ends in box)
            storage.values[at] = self._value(layer, task, box)
            storage.made[at] = True

    def outputs(self) -> dict[str, Array]:
        """What the host receives."""
        return {name: self._output(name) for name in self.graph.outputs}

    def _output(self, name: str) -> Array:
        if self.graph.is_constant(name):
            return host_value(self.graph, name, self.constants(name))
        storage = self.storages.get(f"{name}:host")
        if storage is None or not storage.made.all():
            raise ExecutionError(f"output {name}: no task has made all of it")
        return host_value(self.graph, name, storage.values)

    def _storage(self, layer: Layer) -> _Storage:
        if layer.output not in self.storages:
            dtype = self._dtype(layer)
            values = np.zeros(layer.output_shape, dtype)
            self.storages[layer.output] = _Storage(values, np.zeros(layer.output_shape, np.bool_))
        return self.storages[layer.output]

    def _dtype(self, layer: Layer) -> np.dtype[np.generic]:
        if layer.output in self.graph.types:
            return held_dtype(self.graph.types[layer.output])
        return self.storages[layer.sources[0][1]].values.dtype

    def _value(self, layer: Layer, task: int, box: Box) -> Array:
        """The values of one box of a layer's output."""
        if not layer.nodes:
            return self._copied(layer, task, box)
        value: Array | None = None
        for name in layer.nodes:
            value = self._computed(self.nodes[name], layer, task, box, value)
        assert value is not None
        rounds = value.dtype.kind == "f" and layer.output not in self.wide
        return rounded(value) if rounds else value

    def _copied(self, layer: Layer, task: int, box: Box) -> Array:
        at = tuple(slice(*ends) for ends in box)
        if not layer.sources:
            return self.inputs[layer.output][at]
        return self._read(layer, task, layer.sources[0][1], layer.output_shape, box)

    def _computed(
        self, node: Node, layer: Layer, task: int, box: Box, before: Array | None
    ) -> Array:
        sources = dict(layer.sources)

        def read(index: int, part: Box) -> Array:
            name = node.inputs[index]
            if before is not None and index == 0:
                return before
            if self.graph.is_constant(name):
                return self.constants(name)[tuple(slice(*ends) for ends in part)]
            return self._read(layer, task, sources[name], self.graph.types[name].shape, part)

        output = node.outputs.index(layer.output) if layer.output in node.outputs else 0
        types = self.graph.types
        return evaluate(Work(node, types, output, box, read, self.small, self.memo))

    def _read(self, layer: Layer, task: int, name: str, shape: tuple[int, ...], box: Box) -> Array:
        storage = self.storages.get(name)
        at = tuple(slice(*ends) for ends in box)
        if storage is None or not storage.made.reshape(shape)[at].all():
            raise ExecutionError(
                f"task {task} ({layer.name}) reads {box} of {name} before it has been made"
            )
        values: Array = storage.values.reshape(shape)[at]
        return values
