"""What lies in each core's VTCM when: activations, weights, and what must wait in DDR.

All cores are treated like the fullest one. Activations stay in VTCM from the group that makes them
to the last that reads them, as long as they fit beside the weights of the group at hand; else the
one whose next use is farthest away goes to DDR and comes back before that use (Belady's rule). A
tensor that the group itself touches and that still does not fit streams through in tiles.

Room is given up late: what has been read for the last time stays where it is until something else
needs the room, which then waits for that last reader. So most groups wait for none.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from compiler.errors import DoesNotFitError
from compiler.schedule.limits import Limits
from compiler.schedule.names import whole_name
from compiler.schedule.partition import Cluster
from compiler.schedule.plan import Group
from compiler.schedule.tiling import MIN_TILE_BYTES, Tiling

MIB = 1 << 20

RESIDENT_SHARE = 0.25
"""assumed: up to this share of VTCM, weights stay even if activations then spill; they are read at
least once an inference otherwise, activations only where they do not fit."""

MOST_TILES = 1024
"""assumed: finer tiles than this are no longer worth a program."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """One group's use of a core's VTCM.

    `reload` are tensors that come back from DDR whole before the group, `stream_in` those that
    come in tile by tile while it runs, `write_back` those of its outputs that go to DDR.
    `row_tiles` is into how many tiles its rows must be cut to fit; `free_bytes` is what is left
    for weights. The group takes room from what group `after` and those before it were the last to
    use (-1: none).
    """

    reload: tuple[str, ...]
    stream_in: tuple[str, ...]
    write_back: frozenset[str]
    row_tiles: int
    free_bytes: int
    used_bytes: int
    after: int

    @property
    def moves(self) -> bool:
        """Whether an activation goes to DDR or comes from it at this group."""
        return bool(self.reload or self.stream_in or self.write_back)


@dataclass(frozen=True, slots=True)
class Residency:
    """The memory plan of a program; with `weights_resident` no weight is read while it runs."""

    groups: tuple[GroupMemory, ...]
    weights_resident: bool
    weights_bytes: int
    peak_bytes: int

    @property
    def spills(self) -> bool:
        """Whether any activation goes to DDR."""
        return any(memory.moves for memory in self.groups)


def plan_residency(groups: tuple[Group, ...], limits: Limits) -> Residency:
    """Place everything in a core's VTCM, or raise `DoesNotFitError` naming the step."""
    vtcm_bytes = limits.vtcm_bytes
    # Parts of the batch share their step's constants.
    members = {member.step.name: member for group in groups for member in group.members}.values()
    small = sum(m.core_weight_bytes for m in members if not m.streams_weights)
    weights_bytes = sum(member.core_weight_bytes for member in members)
    if weights_bytes < vtcm_bytes:
        spilling = weights_bytes <= vtcm_bytes * RESIDENT_SHARE
        room = vtcm_bytes - weights_bytes
        rows = _Planner(groups, room, limits, rings=False, spilling=spilling).run()
        if rows is not None:
            peak = weights_bytes + max(row.used_bytes for row in rows)
            return Residency(rows, True, weights_bytes, peak)
    streamed = _Planner(groups, vtcm_bytes - small, limits, rings=True, spilling=True).run()
    assert streamed is not None
    peak = small + max(
        memory.used_bytes + group.ring_bytes
        for memory, group in zip(streamed, groups, strict=True)
    )
    return Residency(streamed, False, weights_bytes, min(peak, vtcm_bytes))


def dram_bytes(groups: tuple[Group, ...], residency: Residency, cluster: Cluster) -> int:
    """Bytes that an inference of one instance moves to and from DDR for want of VTCM."""
    return sum(bytes_by_step(groups, residency, cluster).values())


def bytes_by_step(
    groups: tuple[Group, ...], residency: Residency, cluster: Cluster
) -> Counter[str]:
    """The same for each step; what its group moves counts for the first step of the group."""
    share, found = core_shares(groups), Counter[str]()
    for group, memory in zip(groups, residency.groups, strict=True):
        names = (*memory.reload, *memory.stream_in, *memory.write_back)
        moved = sum(share[name] for name in names) * cluster.num_cores
        found[group.members[0].step.name] += moved
        for member in group.streaming if not residency.weights_resident else ():
            copies = 1 if cluster.multicast_weights else member.split.rows
            found[member.step.name] += member.step.weight_bytes * copies
    return found


def with_streaming(groups: tuple[Group, ...], residency: Residency) -> tuple[Group, ...]:
    """The groups with finer tiles where they would not fit VTCM otherwise."""
    return tuple(
        group.streamed(memory.row_tiles) if memory.row_tiles != group.tiling.rows else group
        for group, memory in zip(groups, residency.groups, strict=True)
    )


def core_shares(groups: tuple[Group, ...]) -> dict[str, int]:
    """Bytes of each tensor that one core holds."""
    members = (member for group in groups for member in group.members)
    return {member.step.output.name: member.core_output_bytes for member in members}


class _Planner:
    """One walk over the groups.

    With `rings` room is kept for the weights of the group at hand; without `spilling` the walk
    gives up where an activation would have to go to DDR.
    """

    def __init__(
        self,
        groups: tuple[Group, ...],
        room_bytes: int,
        limits: Limits,
        *,
        rings: bool,
        spilling: bool,
    ) -> None:
        self.groups = groups
        self.room_bytes = room_bytes
        self.limits = limits
        self.rings = rings
        self.spilling = spilling
        self.share = core_shares(groups)
        self.uses: dict[str, list[int]] = {}
        self.last_use: dict[str, int] = {}
        self.maker: dict[str, int] = {}
        for index, group in enumerate(groups):
            for name in group.external:
                self.uses.setdefault(name, []).append(index)
                self.last_use[name] = index
            for member in group.kept:
                self.maker[member.step.output.name] = index
        self.resident: set[str] = set()
        self.resident_bytes = 0
        self.in_ddr: set[str] = set()
        self.written: dict[int, set[str]] = {}
        self.lingering: deque[tuple[int, int]] = deque()
        self.own_bytes: dict[tuple[Tiling, frozenset[str]], int] = {}

    def run(self) -> tuple[GroupMemory, ...] | None:
        rows = []
        for index, group in enumerate(self.groups):
            row = self._group(index, group)
            if row is None:
                return None
            rows.append(row)
        return tuple(
            replace(row, write_back=frozenset(self.written.get(index, ())))
            for index, row in enumerate(rows)
        )

    def _group(self, index: int, group: Group) -> GroupMemory | None:
        reads, makes = group.external, group.kept_names
        reload = reads - self.resident
        if reload and not self.spilling:
            return None
        self.own_bytes.clear()
        self._hold(reload | makes)
        if self.spilling:
            self._evict(index, group, reads | makes)
        fitted = self._fit(index, group, reads | makes)
        if fitted is None:
            return None
        finer, streamed = fitted
        used = self._needed(index, finer, streamed) - self._ring(finer)
        after = self._reclaim(index, used)
        row = GroupMemory(
            tuple(sorted(reload - streamed)),
            tuple(sorted(streamed - makes)),
            frozenset(),
            finer.tiling.rows,
            max(self.room_bytes - used - self._lingering_bytes(index), finer.least_ring_bytes),
            used,
            after,
        )
        self._forget(index, reads | makes, used)
        return row

    def _reclaim(self, index: int, used_bytes: int) -> int:
        """Take room from what was used last longest ago; the last group that must be waited for.

        Half of what is free stays for the weights to be read ahead.
        """
        free = self.room_bytes - used_bytes
        allowed = free // 2 if self.rings else free
        after = -1
        while self._lingering_bytes(index) > allowed:
            after = self.lingering.popleft()[0]
        return after

    def _lingering_bytes(self, index: int) -> int:
        """Room that nothing is read from any more, and that may be given up."""
        return sum(size for _, size in self.lingering) - self._reserved_bytes(index)

    def _reserved_bytes(self, index: int) -> int:
        """Room that may not be given up yet, though nothing is read from it any more."""
        first, reserved = index - self.limits.dealloc_delay, 0
        for last, size in reversed(self.lingering):
            if last < first:
                break
            reserved += size
        return reserved

    def _needed(self, index: int, group: Group, streamed: frozenset[str]) -> int:
        """Bytes that are in VTCM while the group runs, with the least room for its weights."""
        own = self.own_bytes.get((group.tiling, streamed))
        if own is None:
            own = self._own(index, group, streamed)
            self.own_bytes[group.tiling, streamed] = own
        return self.resident_bytes + self._reserved_bytes(index) + own

    def _own(self, index: int, group: Group, streamed: frozenset[str]) -> int:
        """What the group needs besides whole activations, less what one gives another's place."""
        own = group.tile_peak_bytes + self._ring(group)
        own -= self._overlaid_bytes(index, group, streamed)
        if not streamed:
            return own + group.gathered_bytes
        gathered = sum(member.core_gather_bytes(streamed) for member in group.members)
        return own + gathered + self._passing_bytes(group, streamed)

    def _working_set(self, index: int, group: Group, streamed: frozenset[str]) -> int:
        """Bytes that the group itself touches."""
        touched = group.external | group.kept_names
        idle = sum(self.share[name] for name in self.resident - touched)
        return self._needed(index, group, streamed) - idle - self._reserved_bytes(index)

    def _ring(self, group: Group) -> int:
        return group.ring_bytes if self.rings else 0

    def _overlaid_bytes(self, index: int, group: Group, streamed: frozenset[str]) -> int:
        """Bytes of outputs that take the place of an input which ends here, tile by tile."""
        ending = {
            name: self.share[name]
            for name in group.local_only - streamed
            if self.last_use[name] <= index
        }
        if not ending:
            return 0
        saved = 0
        for member in group.kept:
            size = member.core_output_bytes if member.step.output.name not in streamed else 0
            place = next((name for name in sorted(ending) if ending[name] == size), None)
            if place is not None and size:
                saved += ending.pop(place)
        return saved

    def _hold(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.resident:
                self.resident.add(name)
                self.resident_bytes += self.share[name]

    def _drop(self, name: str) -> None:
        if name in self.resident:
            self.resident.discard(name)
            self.resident_bytes -= self.share[name]

    def _evict(self, index: int, group: Group, touched: frozenset[str]) -> None:
        while self._needed(index, group, frozenset()) > self.room_bytes:
            idle = [name for name in self.resident - touched if self.share[name]]
            if not idle:
                return
            victim = max(idle, key=lambda name: (self._next_use(name, index), name))
            self._drop(victim)
            self._put_in_ddr(victim)

    def _put_in_ddr(self, name: str) -> None:
        if name not in self.in_ddr:
            self.in_ddr.add(name)
            self.written.setdefault(self.maker[name], set()).add(name)

    def _fit(
        self, index: int, group: Group, touched: frozenset[str]
    ) -> tuple[Group, frozenset[str]] | None:
        """The group, with finer tiles if need be, and those of its tensors that pass through.

        The largest tensors go first, in tiles of the split granularity; then tiles are halved
        until they fit.
        """
        streamed: frozenset[str] = frozenset()
        while not self._fits(index, group, streamed):
            if not self.spilling:
                return None
            room = {n: self.share[n] + group.received_bytes(n) for n in touched - streamed}
            whole = [name for name, size in room.items() if size > MIN_TILE_BYTES]
            if whole:
                largest = max(whole, key=lambda name: (room[name], name))
                streamed |= {largest}
                self._drop(largest)
                self._put_in_ddr(largest)
                tiles = self._row_tiles(group, largest)
                least = group.tiling.rows if len(streamed) > 1 else 1
                group = group.streamed(max(tiles, least))
            elif group.tiling.rows < MOST_TILES:
                group = group.streamed(2 * group.tiling.rows)
            elif not self.rings:
                return None
            else:
                raise self._too_big(index, group, streamed)
        return group, streamed

    def _fits(self, index: int, group: Group, streamed: frozenset[str]) -> bool:
        if self._needed(index, group, streamed) > self.room_bytes:
            return False
        limit = self.limits.working_set_bytes
        limited = limit < self.limits.vtcm_bytes
        return not limited or self._working_set(index, group, streamed) <= limit

    def _row_tiles(self, group: Group, name: str) -> int:
        """Row tiles that make one tile of a tensor small; an output comes in all tiles."""
        size = max(self.share[name], group.received_bytes(name))
        tiles = -(-size // self.limits.stream_bytes)
        return tiles if name in group.external else -(-tiles // group.tiling.channels)

    def _passing_bytes(self, group: Group, streamed: frozenset[str]) -> int:
        """Two tiles of each streamed tensor, so that one moves while the other is worked on.

        Parts of one tensor pass one after the other.
        """
        read = group.external
        largest: dict[str, int] = {}
        for name in streamed:
            tiles = group.tiling.rows if name in read else group.tiling.count
            whole = whole_name(name)
            size = max(self.share[name], group.received_bytes(name))
            largest[whole] = max(largest.get(whole, 0), -(-size // tiles))
        return sum(2 * tile_bytes for tile_bytes in largest.values())

    def _too_big(self, index: int, group: Group, streamed: frozenset[str]) -> DoesNotFitError:
        needed, room = self._needed(index, group, streamed), self.room_bytes
        lever = "raise cores or mos, or lower batch size"
        if needed <= room:
            needed, room = self._working_set(index, group, streamed), self.limits.working_set_bytes
            lever = "raise the VTCM working-set limit ratio"
        return DoesNotFitError(
            f"{group.name} ({group.members[0].step.op}): needs {needed / MIB:.1f} MiB of VTCM "
            f"per NSP, has {room / MIB:.1f} MiB; {lever}"
        )

    def _next_use(self, name: str, index: int) -> int:
        return next((use for use in self.uses.get(name, []) if use > index), len(self.groups))

    def _forget(self, index: int, touched: frozenset[str], used_bytes: int) -> None:
        """Let go of what is read no more, the group's own buffers with it."""
        for name in touched:
            if self.last_use.get(name, -1) <= index:
                self._drop(name)
        gone = used_bytes - self._reserved_bytes(index) - self.resident_bytes
        if gone > 0:
            self.lingering.append((index, gone))
