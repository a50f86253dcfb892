"""Planned groups to tasks.

Tasks are emitted in an order in which each engine's queue is its program: weights stand in the
read queue as early as their room in VTCM allows, everything else where its group stands. Since an
engine completes in order, one dependency on the last task of a run of tasks stands for all of it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace

import numpy as np

from compiler.program import Layer, TaskKind, Tasks, Tiles, VectorOp
from compiler.schedule.explain import why
from compiler.schedule.extent import Region
from compiler.schedule.lanes import Cut, Lane, Source, Work, lane_of, waits_of
from compiler.schedule.names import whole_name
from compiler.schedule.partition import Cluster
from compiler.schedule.plan import Group, PlannedStep
from compiler.schedule.reads import Reads
from compiler.schedule.residency import GroupMemory, Residency, core_shares
from compiler.schedule.steps import ACTIVATION_BYTES, Operand, Step, StepKind
from compiler.schedule.tiling import Tiling, piece
from compiler.schedule.weights import Chunk, brings_each, kept_whole, plan_chunks

_LEAVING = (StepKind.OUTPUT, StepKind.SEND)

_BUFFERS = 2
"""Tiles of a streamed tensor that are in VTCM at a time: one moves, one is worked on."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """The tasks and what they belong to; `spill_bytes` is DDR room for activations."""

    tasks: Tasks
    tiles: Tiles
    layers: tuple[Layer, ...]
    spill_bytes: int


def _ddr_bytes(step: Step, size_bytes: int) -> int:
    """Bytes in DDR of a piece of a step's weights, rounded up."""
    packed = step.packed_bytes or step.weight_bytes
    return -(-size_bytes * packed // max(1, step.weight_bytes))


def lower(
    groups: tuple[Group, ...],
    residency: Residency,
    reads: Reads,
    cluster: Cluster,
) -> Lowered:
    """All tasks of one inference."""
    chunks = plan_chunks(groups, residency)
    return _Emitter(groups, residency, chunks, reads, cluster).run()


class _Columns:
    """Tasks as they are appended; `add` gives the new task's index, `makes` says what it made.

    The integers are not boxed, since there are many.
    """

    def __init__(self) -> None:
        self.kind = array("b")
        self.core = array("h")
        self.layer = array("i")
        self.work = array("q")
        self.after_start = array("q", (0,))
        self.after = array("i")
        self.tiles = array("i")

    def add(self, kind: TaskKind, core: int, layer: int, work: Work, after: list[int]) -> int:
        number = len(self.kind)
        self.kind.append(kind)
        self.core.append(core)
        self.layer.append(layer)
        self.work.extend(work)
        for task in sorted(set(after)) if len(after) > 1 else after:
            if task >= 0:
                self.after.append(task)
        self.after_start.append(len(self.after))
        return number

    def makes(self, task: int, region: Region) -> None:
        self.tiles.append(task)
        self.tiles.extend(region)

    def freeze_tiles(self) -> Tiles:
        columns = np.array(self.tiles, dtype=np.int32).reshape(-1, 5).T
        return Tiles(*(np.ascontiguousarray(column) for column in columns))

    def freeze(self) -> Tasks:
        work = np.array(self.work, dtype=np.int64).reshape(-1, 4)
        return Tasks(
            kind=np.array(self.kind, dtype=np.int8),
            core=np.array(self.core, dtype=np.int16),
            layer=np.array(self.layer, dtype=np.int32),
            w0=np.ascontiguousarray(work[:, 0]),
            w1=np.ascontiguousarray(work[:, 1]),
            w2=np.ascontiguousarray(work[:, 2]),
            w3=np.ascontiguousarray(work[:, 3]),
            after_start=np.array(self.after_start, dtype=np.int64),
            after=np.array(self.after, dtype=np.int32),
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """Where a tensor comes from: per core its lane, and the tasks that complete its turns."""

    member: PlannedStep
    lanes: tuple[Lane, ...]
    tiles: dict[int, list[int]]

    def last(self, core: int) -> int:
        """The task after which `core` has its whole part; any core's where it made none."""
        own = self.tiles.get(core)
        return own[-1] if own else max(tiles[-1] for tiles in self.tiles.values())


@dataclass(frozen=True, slots=True)
class _Member:
    """A member while its group is emitted.

    `waits` are, per core and operand, a task, or which turn of the operand each turn awaits;
    operands in `streamed` come from DDR tile by tile. It `weighs` when its weights are read while
    the program runs, `fetches` when it reads a table or the host's buffer, `leaves` when its
    output goes out of VTCM.
    """

    layer: int
    step: Step
    lanes: tuple[Lane, ...]
    tiles: dict[int, list[int]]
    waits: tuple[tuple[int | tuple[int, ...], ...], ...]
    sources: tuple[_Made, ...]
    streamed: tuple[str, ...]
    weighs: bool
    fetches: bool
    leaves: bool


_Turn = tuple[int, int, _Member]
"""A member whose turn it is: its number in the group, which turn, and itself."""


def _turns_at(members: list[_Member], tile: int) -> list[_Turn]:
    """The turns that end with a tile; they are the same on every core."""
    found = []
    for number, member in enumerate(members):
        turn = len(member.tiles[0])
        first, pieces = member.lanes[0].turns[turn]
        if first + pieces - 1 <= tile:
            found.append((number, turn, member))
    return found


class _Emitter:
    """Walks the groups once, tile by tile; layer numbers count members over all groups."""

    def __init__(
        self,
        groups: tuple[Group, ...],
        residency: Residency,
        chunks: tuple[Chunk, ...],
        reads: Reads,
        cluster: Cluster,
    ) -> None:
        self.groups = groups
        self.residency = residency
        self.chunks = chunks
        self.reads = reads
        self.num_cores = cluster.num_cores
        self.multicast = cluster.multicast_weights
        self.columns = _Columns()
        self.made: dict[str, _Made] = {}
        self.written: dict[str, dict[int, int]] = {}
        self.gathered: dict[tuple[str, tuple[int, ...], int], int] = {}
        self.share = core_shares(groups)
        self.kept = tuple(
            kept_whole(group, memory.free_bytes)
            for group, memory in zip(groups, residency.groups, strict=True)
        )
        self.next_chunk = 0
        self.consumed: list[dict[int, int]] = []
        self.loaded: dict[tuple[int, int, int], dict[int, int]] = {}
        self.packed: dict[tuple[int, int, int], dict[int, int]] = {}
        self.spilled: dict[int, int] = {}
        self.previous: dict[int, int] = {}
        self.finished: list[list[list[int]]] = []
        self.first_layer = [0]
        for group in groups:
            self.first_layer.append(self.first_layer[-1] + len(group.members))

    def run(self) -> Lowered:
        self._load_weights()
        for index, group in enumerate(self.groups):
            self._group(index, group, self.residency.groups[index])
        layers = tuple(
            self._layer(index, number, group, member)
            for index, group in enumerate(self.groups)
            for number, member in enumerate(group.members)
        )
        spill_bytes = sum(self.share[name] * self.num_cores for name in self.written)
        return Lowered(self.columns.freeze(), self.columns.freeze_tiles(), layers, spill_bytes)

    def _layer(self, index: int, number: int, group: Group, member: PlannedStep) -> Layer:
        step, split, memory = member.step, member.split, self.residency.groups[index]
        layer = self.first_layer[index] + number
        return Layer(
            name=step.name,
            op=step.op,
            output_shape=step.shape,
            macs=step.matrix.macs if step.matrix is not None else 0,
            weight_bytes=step.weight_bytes,
            output_bytes=step.output.size_bytes,
            spill_bytes=self.spilled.get(layer, 0),
            tiles=group.tiling.count,
            split=f"rows {split.rows} x channels {split.channels}",
            vtcm_bytes=memory.used_bytes,
            tile_bytes=-(-member.core_output_bytes // group.tiling.count),
            why=why(group, member, memory, first=not number),
            nodes=tuple(node.name for node in step.nodes),
            output=whole_name(step.output.name),
            sources=tuple((value, whole_name(storage)) for value, storage in step.sources),
            channel_axis=step.output.extent.axis,
        )

    def _group(self, index: int, group: Group, memory: GroupMemory) -> None:
        layer = self.first_layer[index]
        for name in memory.reload:
            self._reload(layer, name)
        barriers = self._exchanges(layer, group, memory)
        cores = range(group.split.cores)
        units = [group.units(core) for core in cores]
        members = [
            self._member(layer + number, group, number, units, barriers, memory)
            for number in range(len(group.members))
        ]
        for tile in range(group.tiling.count):
            turns = _turns_at(members, tile)
            for core in cores:
                self._tile(index, turns, memory, core, tile)
            if self.chunks and group.streaming:
                self._consume(index, tile)
        self.previous = {core: members[-1].tiles[core][-1] for core in cores}
        self.finished.append([[member.tiles[core][-1] for member in members] for core in cores])

    def _member(
        self,
        layer: int,
        group: Group,
        number: int,
        units: list[int],
        barriers: dict[tuple[int, str], int],
        memory: GroupMemory,
    ) -> _Member:
        member, cores = group.members[number], range(group.split.cores)
        lanes = tuple(lane_of(group, number, core, units[core]) for core in cores)
        tiles: dict[int, list[int]] = {core: [] for core in cores}
        operands = [
            operand for operand in member.step.operands if operand.tensor not in memory.stream_in
        ]
        waits = tuple(
            tuple(
                barriers[number, operand.tensor]
                if (number, operand.tensor) in barriers
                else self._waits(member, operand, lanes[core], core)
                for operand in operands
            )
            for core in cores
        )
        sources = tuple(self.made[operand.tensor] for operand in operands)
        self.made[member.step.output.name] = _Made(member, lanes, tiles)
        names = {operand.tensor for operand in member.step.operands}
        streamed = tuple(name for name in memory.stream_in if name in names)
        step = member.step
        return _Member(
            layer,
            step,
            lanes,
            tiles,
            waits,
            sources,
            streamed,
            weighs=bool(self.chunks) and member.streams_weights,
            fetches=bool(step.table_bytes) or step.kind is StepKind.INPUT,
            leaves=step.kind in _LEAVING or step.output.name in memory.write_back,
        )

    def _waits(
        self, member: PlannedStep, operand: Operand, lane: Lane, core: int
    ) -> int | tuple[int, ...]:
        made = self.made[operand.tensor]
        if core >= len(made.lanes):
            return made.last(core)
        own = made.lanes[core]
        source = Source(made.member, own.part, own.cut)
        return waits_of(self.reads, member, operand, lane, source)

    def _exchanges(
        self, layer: int, group: Group, memory: GroupMemory
    ) -> dict[tuple[int, str], int]:
        """The barrier behind which each exchanged operand is there, by member and tensor.

        What streams in from DDR comes from there, whoever made it.
        """
        return {
            (number, operand.tensor): self._exchange(
                layer + number, operand.tensor, exchange.sent_bytes, exchange.receivers
            )
            for number, member in enumerate(group.members)
            for operand, exchange in zip(member.step.operands, member.exchanges, strict=True)
            if any(exchange.sent_bytes) and operand.tensor not in memory.stream_in
        }

    def _exchange(
        self, layer: int, tensor: str, sent_bytes: tuple[int, ...], receivers: int
    ) -> int:
        """Each core sends what others need of its part, then all meet; once for equal needs."""
        key = (tensor, sent_bytes, receivers)
        if key in self.gathered:
            return self.gathered[key]
        made = self.made[tensor]
        sends = [
            self.columns.add(
                TaskKind.SEND, core, layer, (size, receivers, 0, 0), [made.last(core)]
            )
            for core, size in enumerate(sent_bytes)
            if size
        ]
        meet = (self.num_cores, 0, 0, 0)
        self.gathered[key] = self.columns.add(TaskKind.BARRIER, 0, layer, meet, sends)
        return self.gathered[key]

    def _consume(self, index: int, tile: int) -> None:
        """Note whose room is free after this tile, and read what now fits."""
        group = self.groups[index]
        last_tile = tile == group.tiling.count - 1
        while len(self.consumed) < len(self.chunks):
            chunk = self.chunks[len(self.consumed)]
            if chunk.group != index or chunk.tile > tile:
                break
            if not last_tile and (self.kept[index] or not brings_each(group, chunk.member)):
                break
            made = self.made[group.members[chunk.member].step.output.name]
            self.consumed.append({core: done[-1] for core, done in made.tiles.items()})
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
        split = self.groups[chunk.group].split
        layer = self.first_layer[chunk.group] + chunk.member
        room = self.consumed[chunk.after] if chunk.after >= 0 else {}
        step = self.groups[chunk.group].members[chunk.member].step
        size = _ddr_bytes(step, chunk.size_bytes)
        arrivals: dict[int, int] = {}
        for channel in range(split.channels):
            cores = range(channel, split.cores, split.channels)
            if self.multicast and len(cores) > 1:
                arrivals |= self._multicast(layer, size, cores, list(room.values()))
            else:
                for core in cores:
                    wait = [room[core]] if core in room else list(room.values())
                    arrivals[core] = self._read(layer, core, size, wait)
        key = (chunk.group, chunk.member, chunk.tile)
        self.loaded[key] = arrivals
        if step.packed_bytes:
            self.packed[key] = dict.fromkeys(arrivals, chunk.size_bytes)

    def _multicast(
        self, layer: int, size_bytes: int, cores: range, room: list[int]
    ) -> dict[int, int]:
        """One core reads for all, and the bytes go to all on their way from DDR.

        Sent after they have been read, they would stand in the way of what the cores exchange.
        """
        loader = cores[self.next_chunk % len(cores)]
        work = (size_bytes, 0, len(cores) - 1, 0)
        read = self.columns.add(TaskKind.READ, loader, layer, work, room)
        return dict.fromkeys(cores, read)

    def _read(
        self, layer: int, core: int, size_bytes: int, after: list[int], activations: int = 0
    ) -> int:
        work = (size_bytes, activations, 0, 0)
        return self.columns.add(TaskKind.READ, core, layer, work, after)

    def _reload(self, layer: int, name: str) -> None:
        made = self.made[name]
        written = self.written.get(name, {})
        tiles = {}
        for core in made.tiles:
            after = [written.get(core, -1), self.previous.get(core, -1)]
            tiles[core] = [self._read(layer, core, self.share[name], after, 1)]
            self._count_spill(layer, self.share[name])
        whole = Cut(Tiling(1), 1, 1)
        lanes = tuple(replace(lane, cut=whole) for lane in made.lanes)
        self.made[name] = _Made(made.member, lanes, tiles)

    def _tile(
        self, index: int, turns: list[_Turn], memory: GroupMemory, core: int, tile: int
    ) -> None:
        """All that happens on a core at a tile: reads, then each member whose turn it is."""
        group = self.groups[index]
        streams = self._stream_in(index, group, memory, core, tile) if memory.stream_in else {}
        for number, turn, member in turns:
            after = self._awaited(member, core, turn)
            after += [streams[name] for name in member.streamed if name in streams]
            if member.weighs:
                key = (index, number, self._chunk_tile(index, group, number, tile))
                if key in self.loaded:
                    after.append(self._arrived(member.layer, key, core))
            if member.fetches:
                after += self._fetch(member.layer, group, group.members[number], core, tile)
            if turn == 0 and memory.after >= 0:
                after += self._room_of(memory.after, core)
            done = self._compute(member, core, turn, after)
            member.tiles[core].append(done)
            if member.leaves:
                taken = member.lanes[core].turns[turn]
                self._leave(group, member, memory, core, taken, done)

    def _arrived(self, layer: int, key: tuple[int, int, int], core: int) -> int:
        """The task after which a piece of the weights can be used; unpacks it the first time.

        Not before: the vector unit takes its tasks in order, and would wait for the piece.
        """
        size = self.packed.get(key, {}).pop(core, 0)
        if size:
            work = (size // ACTIVATION_BYTES, int(VectorOp.CONVERT), ACTIVATION_BYTES, 0)
            arrival = [self.loaded[key][core]]
            self.loaded[key][core] = self.columns.add(TaskKind.VECTOR, core, layer, work, arrival)
        return self.loaded[key][core]

    def _awaited(self, member: _Member, core: int, turn: int) -> list[int]:
        """The tasks after which the operands' parts for this turn are there."""
        found = []
        for wait, source in zip(member.waits[core], member.sources, strict=True):
            if isinstance(wait, int):
                found.append(wait)
            elif wait[turn] >= 0:
                found.append(source.tiles[core][wait[turn]])
        return found

    def _chunk_tile(self, index: int, group: Group, number: int, tile: int) -> int:
        """The tile with which a member's weights for this tile were brought."""
        if not brings_each(group, number):
            return 0
        return tile % group.tiling.channels if self.kept[index] else tile

    def _room_of(self, group: int, core: int) -> list[int]:
        """The tasks that are the last on a core to use the room of a group."""
        finished = self.finished[group]
        return finished[core] if core < len(finished) else []

    def _stream_in(
        self, index: int, group: Group, memory: GroupMemory, core: int, tile: int
    ) -> dict[str, int]:
        """Reads of this tile's rows of the inputs that only pass through.

        Where they are of other cores' making, all of it must have been written before.
        """
        row, column = divmod(tile, group.tiling.channels)
        if column != 0 and memory.stream_in:
            return {}
        reads = {}
        for name in memory.stream_in:
            received = group.received_bytes(name)
            size = piece(max(self.share[name], received), group.tiling.rows, row)
            written = self.written.get(name, {})
            sources = list(written.values()) if received else [written.get(core, -1)]
            after = [*sources, self._room(group, core)]
            reads[name] = self._read(self.first_layer[index], core, size, after, 1)
            self._count_spill(self.first_layer[index], size)
        return reads

    def _room(self, group: Group, core: int) -> int:
        """The task that frees the buffer which the next streamed tile goes to."""
        done = self.made[group.members[-1].step.output.name].tiles[core]
        back = _BUFFERS * group.tiling.channels
        return done[-back] if len(done) >= back else -1

    def _fetch(
        self, layer: int, group: Group, member: PlannedStep, core: int, tile: int
    ) -> list[int]:
        """Reads of table rows and of the host's buffer."""
        step = member.step
        total = step.table_bytes + (step.host_bytes if step.kind is StepKind.INPUT else 0)
        if not total:
            return []
        size = piece(group.split.core_part(total, core), group.tiling.count, tile)
        activations = int(step.kind is StepKind.INPUT)
        return [self._read(layer, core, size, [self._room(group, core)], activations)]

    def _compute(self, member: _Member, core: int, turn: int, after: list[int]) -> int:
        lane, done = member.lanes[core], -1
        for kind, work in lane.works[turn]:
            done = self.columns.add(kind, core, member.layer, work, after)
            after = [done]
        self.columns.makes(done, lane.regions[turn])
        return done

    def _leave(
        self,
        group: Group,
        member: _Member,
        memory: GroupMemory,
        core: int,
        taken: tuple[int, int],
        done: int,
    ) -> None:
        name, layer = member.step.output.name, member.layer
        if member.step.kind is StepKind.OUTPUT:
            share = group.split.core_part(member.step.host_bytes, core)
            size = piece(share, group.tiling.count, *taken)
            self.columns.add(TaskKind.WRITE, core, layer, (size, 0, 0, 0), [done])
        elif member.step.kind is StepKind.SEND:
            size = piece(self.share[name], group.tiling.count, *taken)
            self.columns.add(TaskKind.SEND, core, layer, (size, 1, 0, 0), [done])
        elif name in memory.write_back:
            size = piece(self.share[name], group.tiling.count, *taken)
            task = self.columns.add(TaskKind.WRITE, core, layer, (size, 0, 0, 0), [done])
            self.written.setdefault(name, {})[core] = task
            self._count_spill(layer, size)

    def _count_spill(self, layer: int, size_bytes: int) -> None:
        self.spilled[layer] = self.spilled.get(layer, 0) + size_bytes
