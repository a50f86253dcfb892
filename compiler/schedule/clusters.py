"""Single-device partitioning: the cores in clusters, the layers in stages, one stage a cluster.

While a cluster works on an inference, the one before it works on the next. Each has the weights of
its own layers only, so that they stay in VTCM sooner. What a stage needs of the one before is sent
over the on-chip network at the end of a pass and there when the next begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from compiler.program import Tasks, Tiles
from compiler.schedule.cost import matrix_cycles, vector_cycles
from compiler.schedule.lower import Lowered
from compiler.schedule.steps import Operand, Step, StepKind, Tensor


def stages_of(steps: tuple[Step, ...], sizes: Sequence[int]) -> tuple[tuple[Step, ...], ...]:
    """The steps of each cluster of `sizes` cores, with what they hand over as steps of its own."""
    borders = _borders(steps, sizes)
    stages = []
    carried: tuple[Tensor, ...] = ()
    for number, (start, end) in enumerate(pairwise(borders)):
        own = tuple(_renamed(step, carried, number) for step in steps[start:end])
        wanted = {operand.tensor for step in steps[end:] for operand in step.operands}
        made = tuple(step.output for step in steps[start:end])
        leaving = tuple(tensor for tensor in (*carried, *made) if tensor.name in wanted)
        received = tuple(_received(tensor, number, steps[0]) for tensor in carried)
        sent = tuple(_sent(tensor, carried, number, steps[0]) for tensor in leaving)
        stages.append((*received, *own, *sent))
        carried = leaving
    return tuple(stages)


def _borders(steps: tuple[Step, ...], sizes: Sequence[int]) -> list[int]:
    """Where each stage begins: each cluster gets work in proportion to its cores.

    The first stage takes all inputs, the last gives all outputs.
    """
    cycles = np.cumsum([_cycles(step) for step in steps])
    shares = np.cumsum(sizes)[:-1] / sum(sizes)
    inputs = sum(step.kind is StepKind.INPUT for step in steps)
    outputs = next(at for at, step in enumerate(steps) if step.kind is StepKind.OUTPUT)
    inner = [int(np.abs(cycles - share * cycles[-1]).argmin()) + 1 for share in shares]
    return [0, *(min(max(border, inputs), outputs) for border in inner), len(steps)]


def _cycles(step: Step) -> float:
    work = step.matrix
    matrix = 0.0
    if work is not None:
        matrix = matrix_cycles(work.rows, work.inputs, work.outputs, work.repeats)
    return matrix + sum(vector_cycles(vector.elements) for vector in step.vector)


def _name(tensor: str, number: int, what: str) -> str:
    return f"{tensor}:{what}{number}"


def _renamed(step: Step, carried: tuple[Tensor, ...], number: int) -> Step:
    """A step that reads what came from the stage before under the name it has here."""
    names = {tensor.name: _name(tensor.name, number, "received") for tensor in carried}
    return replace(
        step,
        operands=tuple(replace(o, tensor=names.get(o.tensor, o.tensor)) for o in step.operands),
        sources=tuple((value, names.get(tensor, tensor)) for value, tensor in step.sources),
    )


def _received(tensor: Tensor, number: int, like: Step) -> Step:
    name = _name(tensor.name, number, "received")
    sent = _name(tensor.name, number - 1, "sent")
    return Step(
        name=name,
        op="Receive",
        kind=StepKind.INPUT,
        operands=(),
        output=replace(tensor, name=name),
        shape=tensor.extent.shape,
        samples=like.samples,
        samplewise=not tensor.row_units % like.samples,
        sources=((sent, sent),),
    )


def _sent(tensor: Tensor, carried: tuple[Tensor, ...], number: int, like: Step) -> Step:
    source = tensor.name
    if any(tensor.name == other.name for other in carried):
        source = _name(tensor.name, number, "received")
    name = _name(tensor.name, number, "sent")
    return Step(
        name=name,
        op="Send",
        kind=StepKind.SEND,
        operands=(Operand(source, "", -1, local=True),),
        output=replace(tensor, name=name),
        shape=tensor.extent.shape,
        samples=like.samples,
        samplewise=not tensor.row_units % like.samples,
        sources=((source, source),),
    )


def joined(stages: Sequence[Lowered], sizes: Sequence[int]) -> Lowered:
    """The stages side by side: their tasks depend on nothing of each other within a pass."""
    if len(stages) == 1:
        return stages[0]
    task, layer, core = 0, 0, 0
    tasks, tiles = [], []
    for stage, size in zip(stages, sizes, strict=True):
        tasks.append(_moved_tasks(stage.tasks, task, layer, core))
        tiles.append(replace(stage.tiles, task=stage.tiles.task + np.int32(task)))
        task, layer, core = task + len(stage.tasks), layer + len(stage.layers), core + size
    return Lowered(
        _joined_tasks(tasks),
        Tiles(*map(np.concatenate, zip(*map(_tile_columns, tiles), strict=True))),
        tuple(layer for stage in stages for layer in stage.layers),
        sum(stage.spill_bytes for stage in stages),
    )


def _moved_tasks(tasks: Tasks, task: int, layer: int, core: int) -> Tasks:
    return replace(
        tasks,
        core=tasks.core + np.int16(core),
        layer=tasks.layer + np.int32(layer),
        after=tasks.after + np.int32(task),
    )


def _joined_tasks(parts: Sequence[Tasks]) -> Tasks:
    names = ("kind", "core", "layer", "w0", "w1", "w2", "w3", "after")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    starts = [parts[0].after_start[:1]]
    for part in parts:
        starts.append(part.after_start[1:] + starts[-1][-1])
    return Tasks(after_start=np.concatenate(starts), **columns)


def _tile_columns(tiles: Tiles) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], ...]:
    return (
        tiles.task,
        tiles.row_start,
        tiles.row_end,
        tiles.column_start,
        tiles.column_end,
    )
