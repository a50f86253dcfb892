"""Planned steps to tasks.

Tasks are emitted in an order in which each engine's queue is its program: weights stand in the
read queue as early as their room in VTCM allows, everything else where its step stands. Since an
engine completes in order, one dependency on the last task of a group stands for the whole group.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from compiler.program import Layer, TaskKind, Tasks
from compiler.schedule.plan import PlannedStep
from compiler.schedule.residency import Residency, StepMemory
from compiler.schedule.steps import BLOCK, Access, Operand, StepKind
from compiler.schedule.tiling import Tiling, piece, tile_streamed
from compiler.schedule.weights import Chunk, plan_chunks

_BUFFERS = 2
"""Tiles of a streamed tensor that are in VTCM at a time: one moves, one is worked on."""


def with_streaming(
    planned: tuple[PlannedStep, ...], residency: Residency
) -> tuple[PlannedStep, ...]:
    """The plan with finer tiles where an input only passes through VTCM."""
    share = {plan.step.output.name: plan.core_output_bytes for plan in planned}
    return tuple(
        replace(plan, tiling=tile_streamed(plan.tiling, max(share[n] for n in memory.stream_in)))
        if memory.stream_in
        else plan
        for plan, memory in zip(planned, residency.steps, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Lowered:
    """The tasks and what they belong to; `spill_bytes` is DDR room for activations."""

    tasks: Tasks
    layers: tuple[Layer, ...]
    spill_bytes: int


def lower(
    planned: tuple[PlannedStep, ...],
    residency: Residency,
    num_cores: int,
    *,
    multicast_weights: bool,
) -> Lowered:
    """All tasks of one inference."""
    chunks = plan_chunks(planned, residency)
    emitter = _Emitter(planned, residency, chunks, num_cores, multicast_weights)
    return emitter.run()


@dataclass(slots=True)
class _Columns:
    """Tasks as they are appended; `add` gives the new task's index."""

    kind: list[int] = field(default_factory=list)
    core: list[int] = field(default_factory=list)
    layer: list[int] = field(default_factory=list)
    work: list[tuple[int, int, int, int]] = field(default_factory=list)
    after_start: list[int] = field(default_factory=lambda: [0])
    after: list[int] = field(default_factory=list)

    def add(
        self,
        kind: TaskKind,
        core: int,
        layer: int,
        work: tuple[int, int, int, int],
        after: list[int],
    ) -> int:
        self.kind.append(kind)
        self.core.append(core)
        self.layer.append(layer)
        self.work.append(work)
        self.after.extend(sorted({task for task in after if task >= 0}))
        self.after_start.append(len(self.after))
        return len(self.kind) - 1

    def freeze(self) -> Tasks:
        work = np.asarray(self.work, dtype=np.int64).reshape(-1, 4)
        return Tasks(
            kind=np.asarray(self.kind, dtype=np.int8),
            core=np.asarray(self.core, dtype=np.int16),
            layer=np.asarray(self.layer, dtype=np.int32),
            w0=np.ascontiguousarray(work[:, 0]),
            w1=np.ascontiguousarray(work[:, 1]),
            w2=np.ascontiguousarray(work[:, 2]),
            w3=np.ascontiguousarray(work[:, 3]),
            after_start=np.asarray(self.after_start, dtype=np.int64),
            after=np.asarray(self.after, dtype=np.int32),
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """Where a tensor's tiles come from: per core the tasks that complete them, in order."""

    tiling: Tiling
    tiles: dict[int, list[int]]

    def last(self, core: int) -> int:
        """The task after which `core` has its whole part; any core's where it made none."""
        own = self.tiles.get(core)
        return own[-1] if own else max(tiles[-1] for tiles in self.tiles.values())


class _Emitter:
    def __init__(
        self,
        planned: tuple[PlannedStep, ...],
        residency: Residency,
        chunks: tuple[Chunk, ...],
        num_cores: int,
        multicast_weights: bool,
    ) -> None:
        self.planned = planned
        self.residency = residency
        self.chunks = chunks
        self.num_cores = num_cores
        self.multicast = multicast_weights
        self.columns = _Columns()
        self.made: dict[str, _Made] = {}
        self.written: dict[str, dict[int, int]] = {}
        self.gathered: dict[tuple[str, int, int], int] = {}
        self.share = {plan.step.output.name: plan.core_output_bytes for plan in planned}
        self.next_chunk = 0
        self.consumed: list[dict[int, int]] = []
        self.loaded: dict[tuple[int, int], dict[int, int]] = {}
        self.spilled: dict[int, int] = {}
        self.previous: dict[int, int] = {}

    def run(self) -> Lowered:
        self._load_weights()
        for index, plan in enumerate(self.planned):
            self._step(index, plan, self.residency.steps[index])
        layers = tuple(self._layer(index, plan) for index, plan in enumerate(self.planned))
        spill_bytes = sum(self.share[name] * self.num_cores for name in self.written)
        return Lowered(self.columns.freeze(), layers, spill_bytes)

    def _layer(self, index: int, plan: PlannedStep) -> Layer:
        step, split = plan.step, plan.split
        return Layer(
            name=step.name,
            op=step.op,
            output_shape=step.shape,
            macs=step.matrix.macs if step.matrix is not None else 0,
            weight_bytes=step.weight_bytes,
            output_bytes=step.output.size_bytes,
            spill_bytes=self.spilled.get(index, 0),
            tiles=plan.tiling.count,
            split=f"rows {split.rows} x channels {split.channels}",
        )

    def _step(self, index: int, plan: PlannedStep, memory: StepMemory) -> None:
        for name in memory.reload:
            self._reload(index, name)
        barriers = {
            operand.tensor: self._exchange(index, plan, operand, exchange.sent_bytes, exchange.receivers)
            for operand, exchange in zip(plan.step.operands, plan.exchanges, strict=True)
            if exchange.sent_bytes
        }
        tiles: dict[int, list[int]] = {core: [] for core in range(plan.split.cores)}
        for tile in range(plan.tiling.count):
            for core in range(plan.split.cores):
                tiles[core].append(self._tile(index, plan, memory, core, tile, tiles, barriers))
            self._consume(index, plan, tile, tiles)
        self.made[plan.step.output.name] = _Made(plan.tiling, tiles)
        self.previous = {core: done[-1] for core, done in tiles.items()}

    def _consume(
        self, index: int, plan: PlannedStep, tile: int, tiles: dict[int, list[int]]
    ) -> None:
        """Note that a chunk's room is free again, and read what now fits."""
        number = len(self.consumed)
        if number >= len(self.chunks) or self.chunks[number].step != index:
            return
        shared_by_all_tiles = plan.tiling.channels == 1
        if shared_by_all_tiles and tile < plan.tiling.count - 1:
            return
        self.consumed.append({core: done[-1] for core, done in tiles.items()})
        self._load_weights()

    def _load_weights(self) -> None:
        while self.next_chunk < len(self.chunks):
            chunk = self.chunks[self.next_chunk]
            if chunk.after >= len(self.consumed):
                return
            self._load(chunk)
            self.next_chunk += 1

    def _load(self, chunk: Chunk) -> None:
        """Read one chunk: each core for itself, or one core of a group and a multicast."""
        split = self.planned[chunk.step].split
        room = self.consumed[chunk.after] if chunk.after >= 0 else {}
        arrivals: dict[int, int] = {}
        for channel in range(split.channels):
            cores = range(channel, split.cores, split.channels)
            if self.multicast and len(cores) > 1:
                arrivals |= self._multicast(chunk, cores, list(room.values()))
            else:
                for core in cores:
                    wait = [room.get(core, -1)] if core in room else list(room.values())
                    arrivals[core] = self._read(chunk.step, core, chunk.size_bytes, wait)
        self.loaded[chunk.step, chunk.tile] = arrivals

    def _multicast(self, chunk: Chunk, cores: range, room: list[int]) -> dict[int, int]:
        loader = cores[self.next_chunk % len(cores)]
        read = self._read(chunk.step, loader, chunk.size_bytes, room)
        work = (chunk.size_bytes, len(cores) - 1, 0, 0)
        send = self.columns.add(TaskKind.SEND, loader, chunk.step, work, [read])
        return {core: read if core == loader else send for core in cores}

    def _read(self, index: int, core: int, size_bytes: int, after: list[int]) -> int:
        return self.columns.add(TaskKind.READ, core, index, (size_bytes, 0, 0, 0), after)

    def _reload(self, index: int, name: str) -> None:
        made = self.made[name]
        written = self.written.get(name, {})
        tiles = {}
        for core in made.tiles:
            after = [written.get(core, -1), self.previous.get(core, -1)]
            tiles[core] = [self._read(index, core, self.share[name], after)]
            self._count_spill(index, self.share[name])
        self.made[name] = _Made(Tiling(1), tiles)

    def _exchange(
        self, index: int, plan: PlannedStep, operand: Operand, sent_bytes: int, receivers: int
    ) -> int:
        """Every core sends its part, then all meet; done once for equal needs."""
        key = (operand.tensor, sent_bytes, receivers)
        if key in self.gathered:
            return self.gathered[key]
        made = self.made[operand.tensor]
        sends = [
            self.columns.add(
                TaskKind.SEND, core, index, (sent_bytes, receivers, 0, 0), [made.last(core)]
            )
            for core in made.tiles
        ]
        work = (self.num_cores, 0, 0, 0)
        self.gathered[key] = self.columns.add(TaskKind.BARRIER, 0, index, work, sends)
        return self.gathered[key]

    def _tile(
        self,
        index: int,
        plan: PlannedStep,
        memory: StepMemory,
        core: int,
        tile: int,
        tiles: dict[int, list[int]],
        barriers: dict[str, int],
    ) -> int:
        after = [
            barriers[operand.tensor]
            if operand.tensor in barriers
            else self._ready(plan, operand, core, tile)
            for operand in plan.step.operands
        ]
        after += self._arriving(index, plan, memory, core, tile, tiles[core])
        done = self._compute(index, plan, core, tile, after)
        self._leave(index, plan, memory, core, tile, done)
        return done

    def _ready(self, plan: PlannedStep, operand: Operand, core: int, tile: int) -> int:
        """The task after which the operand's part for this tile is there."""
        made = self.made[operand.tensor]
        own = made.tiles.get(core)
        before, now = made.tiling, plan.tiling
        by_rows = before.channels == 1 and now.channels == 1
        by_channels = before.rows == 1 and now.rows == 1 and operand.access is Access.LOCAL
        local = operand.access is not Access.REMAP and operand.access is not Access.GROUP
        if own is None or len(own) == 1 or not (local and (by_rows or by_channels)):
            return made.last(core)
        reached = -(-(tile + 1) * len(own) // now.count) - 1
        beside = 1 if operand.halo_bytes else 0
        return own[min(reached + beside, len(own) - 1)]

    def _arriving(
        self,
        index: int,
        plan: PlannedStep,
        memory: StepMemory,
        core: int,
        tile: int,
        done: list[int],
    ) -> list[int]:
        """What must come from DDR for this tile: weights, streamed inputs, the host's buffer."""
        after = []
        if plan.step.weight_bytes and self.chunks:
            key = (index, tile if plan.tiling.channels > 1 else 0)
            after.append(self.loaded[key][core])
        row, column = divmod(tile, plan.tiling.channels)
        room = [done[-_BUFFERS]] if len(done) >= _BUFFERS else []
        for name in memory.stream_in if column == 0 else ():
            size = piece(self.share[name], plan.tiling.rows, row)
            source = self.written.get(name, {}).get(core, -1)
            after.append(self._read(index, core, size, [source, *room]))
            self._count_spill(index, size)
        fetched = plan.step.table_bytes
        if plan.step.kind is StepKind.INPUT:
            fetched += plan.step.host_bytes
        if fetched:
            size = piece(piece(fetched, plan.split.cores, core), plan.tiling.count, tile)
            after.append(self._read(index, core, size, room))
        return after

    def _compute(
        self, index: int, plan: PlannedStep, core: int, tile: int, after: list[int]
    ) -> int:
        if plan.step.matrix is not None:
            return self.columns.add(
                TaskKind.MATMUL, core, index, self._matrix_piece(plan, core, tile), after
            )
        done = -1
        for work in plan.step.vector:
            elements = piece(piece(work.elements, plan.split.cores, core), plan.tiling.count, tile)
            numbers = (elements, int(work.op), 2, 0)
            done = self.columns.add(TaskKind.VECTOR, core, index, numbers, after)
            after = [done]
        return done if done >= 0 else self._copy(index, core, after)

    def _copy(self, index: int, core: int, after: list[int]) -> int:
        """A step without arithmetic still issues: an empty vector task joins what it waits for."""
        return self.columns.add(TaskKind.VECTOR, core, index, (0, 0, 2, 0), after)

    def _matrix_piece(
        self, plan: PlannedStep, core: int, tile: int
    ) -> tuple[int, int, int, int]:
        work = plan.step.matrix
        assert work is not None
        group, channel = divmod(core, plan.split.channels)
        row, column = divmod(tile, plan.tiling.channels)
        rows = piece(piece(work.rows, plan.split.rows, group), plan.tiling.rows, row)
        blocks = piece(-(-work.outputs // BLOCK), plan.split.channels, channel)
        outputs = BLOCK * piece(blocks, plan.tiling.channels, column)
        return rows, work.inputs, min(outputs, work.outputs), work.repeats

    def _leave(
        self, index: int, plan: PlannedStep, memory: StepMemory, core: int, tile: int, done: int
    ) -> None:
        if plan.step.kind is StepKind.OUTPUT:
            size = piece(piece(plan.step.host_bytes, plan.split.cores, core), plan.tiling.count, tile)
            self.columns.add(TaskKind.WRITE, core, index, (size, 0, 0, 0), [done])
        elif memory.write_back:
            name = plan.step.output.name
            size = piece(self.share[name], plan.tiling.count, tile)
            task = self.columns.add(TaskKind.WRITE, core, index, (size, 0, 0, 0), [done])
            self.written.setdefault(name, {})[core] = task
            self._count_spill(index, size)

    def _count_spill(self, index: int, size_bytes: int) -> None:
        self.spilled[index] = self.spilled.get(index, 0) + size_bytes
