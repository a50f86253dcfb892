"""What a part of a step's output needs of its operands, by the rules of the operators."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from compiler.ir.graph import Graph, TensorType, value_of
from compiler.regions import Box, needed
from compiler.schedule.extent import Extent, Region, around, box_elements, boxes_of, region_of
from compiler.schedule.names import whole_name

if TYPE_CHECKING:
    from compiler.schedule.steps import Operand, Step, Tensor

_SMALL_ELEMENTS = 64
"""assumed: starts, axes and pads, which say where an operator reads, are no longer than this."""


class Reads:
    """Answers for one graph; remembers them, since many cores, tiles and plans ask the same.

    Regions are always of whole tensors, also where a step works on a part of the batch. `memo` and
    `stays` keep what else follows from a step's `kind` alone, from one compilation to the next.
    """

    def __init__(self, graph: Graph) -> None:
        self._types: Mapping[str, TensorType] = graph.types
        self._small = _small_constants(graph)
        self.memo: dict[tuple[object, ...], tuple[int, ...]] = {}
        self.stays: dict[tuple[object, ...], bool] = {}
        self._ids: dict[str, int] = {}
        self._signatures: dict[tuple[object, ...], int] = {}
        self._known: dict[tuple[int, int, Extent, Region], tuple[Region, float]] = {}

    def kind(self, step: Step) -> int:
        """A number that steps with the same operator on the same shapes share."""
        name = step.output.name
        if name not in self._ids:
            signature = self._signature(step)
            self._ids[name] = self._signatures.setdefault(signature, len(self._signatures))
        return self._ids[name]

    def _signature(self, step: Step) -> tuple[object, ...]:
        if not step.nodes:
            return (step.output.extent,)
        node = step.nodes[0]
        return (
            (node.domain, node.op, node.opset, _output_of(step)),
            tuple(sorted((name, _hashable(value)) for name, value in node.attributes.items())),
            tuple(self._types[name].shape if name else None for name in node.inputs),
            tuple(self._small.get(name) for name in node.inputs),
            step.output.extent,
        )

    def needed(
        self, step: Step, operand: Operand, tensor: Tensor, region: Region
    ) -> tuple[Region, float]:
        """The region of `tensor`, which `operand` names, that a region of the output needs.

        Second is the share of that region which is really needed (an operator that picks scattered
        lines needs little of the region around them).
        """
        if not region.area:
            return Region(0, 0, 0, 0), 0.0
        key = (self.kind(step), operand.index, tensor.extent, region)
        if key not in self._known:
            self._known[key] = self._find(step, operand, tensor, region)
        found, share = self._known[key]
        return found.meet(tensor.region), share

    def _find(
        self, step: Step, operand: Operand, tensor: Tensor, region: Region
    ) -> tuple[Region, float]:
        if step.output.extent == tensor.extent and operand.index < 0:
            return region, 1.0
        boxes = [self._box(step, operand, box) for box in boxes_of(step.output.extent, region)]
        shape = self._shape(step, operand)
        found = around([region_of(tensor.extent, shape, box) for box in boxes])
        cells = found.area / (tensor.extent.rows * tensor.extent.columns)
        elements = cells * prod(shape)
        share = sum(box_elements(box) for box in boxes) / elements if elements else 0.0
        return found, min(1.0, share)

    def _shape(self, step: Step, operand: Operand) -> tuple[int, ...]:
        """The shape in which the step reads the operand."""
        return step.output.extent.shape if operand.index < 0 else self._types[operand.value].shape

    def _box(self, step: Step, operand: Operand, box: Box) -> Box:
        if operand.index < 0:
            return box
        node = step.nodes[0]
        return needed(node, self._types, operand.index, box, _output_of(step), self._small)

    def is_samplewise(self, step: Step, tensors: Mapping[str, Tensor]) -> bool:
        """Whether each sample of the output needs that sample of its operands only."""
        rows, samples = step.output.row_units, step.samples
        if samples == 1:
            return True
        if rows % samples or any(tensors[o.tensor].row_units % samples for o in step.operands):
            return False
        return all(
            self._within(step, operand, tensors[operand.tensor], sample)
            for operand in step.operands
            for sample in (0, samples - 1)
        )

    def _within(self, step: Step, operand: Operand, tensor: Tensor, sample: int) -> bool:
        made = _sample(step.output, step.samples, sample)
        wanted, _ = self.needed(step, operand, tensor, made)
        own = _sample(tensor, step.samples, sample)
        return wanted.within(own)


def _output_of(step: Step) -> int:
    """Which output of its first node a step makes."""
    node, made = step.nodes[0], whole_name(step.output.name)
    return node.outputs.index(made) if made in node.outputs else 0


def _hashable(value: object) -> str:
    return value.tobytes().hex() if isinstance(value, np.ndarray) else repr(value)


def _sample(tensor: Tensor, samples: int, sample: int) -> Region:
    each = tensor.row_units // samples
    return Region(sample * each, (sample + 1) * each, 0, tensor.channels)


def _small_constants(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Values of the integer constants that may say where an operator reads."""
    return {
        name: tuple(int(v) for v in value_of(constant).reshape(-1))
        for name, constant in graph.constants.items()
        if not constant.type.dtype.is_float and constant.type.elements <= _SMALL_ELEMENTS
    }
