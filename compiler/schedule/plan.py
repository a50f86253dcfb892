"""Steps with all decisions about them, in groups that share their tiles.

A group is a matrix step, or a vector step, and the vector steps after it that need no more than
the tile at hand: its tiles run through the whole group before the next tile starts. What is made
and used up inside a group never lies in VTCM as a whole, and HMX works on one tile while HVX works
on the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import NamedTuple

from compiler.schedule.exchange import Exchange, exchange_for
from compiler.schedule.extent import Region
from compiler.schedule.geometry import common_units, holdings, tile
from compiler.schedule.partition import Cluster, Split, choose_split
from compiler.schedule.reads import Reads
from compiler.schedule.steps import Operand, Step, StepKind
from compiler.schedule.tiling import (
    TILE_BYTES,
    WEIGHT_TILE_BYTES,
    Tiling,
    tile_matrix,
    tile_vector,
    vector_stride,
)

DEFAULT_OLS = 2
"""What an unset ols means here: the vendor's own searches end at 2 or 3 almost everywhere
(tuning notebooks), and the smaller one costs fewer synchronisations."""

MOST_MEMBERS = 64
"""assumed: steps that share tiles. The longest group of thirty published networks has 7; each
further step is held against all before it, which a chain of thousands would pay for."""

SMALL_CONSTANT_BYTES = 16 << 10
"""assumed: constants of a step up to this size (biases, scales) stay in VTCM for good."""


@dataclass(frozen=True)
class PlannedStep:
    """One step: how it is split, and what is exchanged before it, by operand.

    Its facts are asked for group by group and are worked out once.
    """

    step: Step
    split: Split
    exchanges: tuple[Exchange, ...]

    @cached_property
    def parts(self) -> tuple[Region, ...]:
        """What each core of the split makes of the output."""
        output, split = self.step.output, self.split
        rows = (output.first_row, output.end_row)
        return holdings(rows, output.channels, split, split.cores)

    @cached_property
    def core_output_bytes(self) -> int:
        """Bytes of the output that one core holds."""
        return self.split.core_largest(self.step.output.size_bytes)

    @cached_property
    def core_weight_bytes(self) -> int:
        """Bytes of weights that one core needs; of a vector step's constants, those it meets."""
        share = -(-self.step.weight_bytes // self.split.channels)
        return share if self.step.matrix is not None else min(share, self.core_output_bytes)

    @property
    def streams_weights(self) -> bool:
        """Whether the step's constants are too large to stay in VTCM without being counted."""
        return self.step.weight_bytes > SMALL_CONSTANT_BYTES

    def core_gather_bytes(self, besides: frozenset[str] = frozenset()) -> int:
        """Bytes that a core receives from others and keeps while the step runs.

        Tensors in `besides` come by way of DDR.
        """
        if self.exchanges_nothing:
            return 0
        pairs = zip(self.step.operands, self.exchanges, strict=True)
        return sum(e.received_bytes for operand, e in pairs if operand.tensor not in besides)

    @cached_property
    def exchanges_nothing(self) -> bool:
        """Whether each core has what it needs already."""
        return not any(any(e.sent_bytes) or e.received_bytes for e in self.exchanges)

    def received_bytes(self, tensor: str) -> int:
        """Bytes of one operand that a core receives from others."""
        if self.exchanges_nothing:
            return 0
        pairs = zip(self.step.operands, self.exchanges, strict=True)
        return max((e.received_bytes for o, e in pairs if o.tensor == tensor), default=0)


@dataclass(frozen=True)
class Group:
    """Steps that run tile by tile; `internal` are the tensors that no other group reads.

    The vector steps behind a product take `stride` of its tiles at a time. `by_sample`: a member
    moves things about within a sample, so that no tile may end within one.
    """

    members: tuple[PlannedStep, ...]
    tiling: Tiling
    internal: frozenset[str]
    stride: int = 1
    by_sample: bool = False

    @property
    def name(self) -> str:
        """The name of its first step."""
        return self.members[0].step.name

    @property
    def name_of_output(self) -> str:
        """The name of what its first step makes."""
        return self.members[0].step.output.name

    @property
    def split(self) -> Split:
        """The division over cores that all members have."""
        return self.members[0].split

    def units(self, core: int) -> int:
        """Between how many equal pieces the rows of all members' parts may be cut on a core."""
        return _units(self.members, core, self.by_sample)

    def stride_of(self, number: int) -> int:
        """How many tiles a member takes at a time."""
        return 1 if self.members[number].step.matrix is not None else self.stride

    def received_bytes(self, tensor: str) -> int:
        """Bytes of a tensor that a core of the group receives from others."""
        return max(member.received_bytes(tensor) for member in self.members)

    @cached_property
    def external(self) -> frozenset[str]:
        """Tensors that other groups made."""
        made = {member.step.output.name for member in self.members}
        return frozenset(o.tensor for m in self.members for o in m.step.operands) - made

    @cached_property
    def local_only(self) -> frozenset[str]:
        """External tensors of which each tile needs its own part only."""
        operands = [operand for member in self.members for operand in member.step.operands]
        wide = {operand.tensor for operand in operands if not operand.local}
        return self.external - wide

    @cached_property
    def kept(self) -> tuple[PlannedStep, ...]:
        """Members whose output outlives the group."""
        return tuple(m for m in self.members if m.step.output.name not in self.internal)

    @cached_property
    def kept_names(self) -> frozenset[str]:
        """Tensors that outlive the group."""
        return frozenset(member.step.output.name for member in self.kept)

    @cached_property
    def gathered_bytes(self) -> int:
        """Bytes that a core receives from others and keeps while the group runs."""
        return sum(member.core_gather_bytes() for member in self.members)

    @cached_property
    def streaming(self) -> tuple[PlannedStep, ...]:
        """Members with constants that are too large to stay in VTCM without being counted."""
        return tuple(member for member in self.members if member.streams_weights)

    @cached_property
    def tile_peak_bytes(self) -> int:
        """Most bytes that internal tensors take at a time on one core.

        The first member's output exists twice, because its engine goes on with the next tile;
        the vector steps behind it run one after the other and work in place where they can.
        """
        last = {o.tensor: i for i, m in enumerate(self.members) for o in m.step.operands}
        live: dict[str, int] = {}
        peak = 0
        for index, member in enumerate(self.members):
            live = {tensor: size for tensor, size in live.items() if last[tensor] > index}
            name = member.step.output.name
            if name in self.internal:
                live[name] = self._tile_bytes(member)
            peak = max(peak, sum(live.values()))
        first = self.members[0]
        ahead = self.tiling.count > self.stride and first.step.output.name in self.internal
        return peak + (self._tile_bytes(first) if ahead else 0)

    def _tile_bytes(self, member: PlannedStep) -> int:
        return -(-member.core_output_bytes * self.stride // self.tiling.count)

    @cached_property
    def ring_bytes(self) -> int:
        """Room that its weights need at least: two tiles of them, or all if that is less."""
        return sum(
            min(2 * self.chunk_bytes(member), member.core_weight_bytes)
            for member in self.streaming
        )

    @cached_property
    def least_ring_bytes(self) -> int:
        """Room for one tile of its weights."""
        return sum(self.chunk_bytes(member) for member in self.streaming)

    def chunk_bytes(self, member: PlannedStep) -> int:
        """Bytes of a member's weights that one tile needs on one core."""
        pieces = self.tiling.channels if member.step.matrix is not None else 1
        return -(-member.core_weight_bytes // pieces)

    def streamed(self, row_tiles: int) -> Group:
        """The group with its rows cut into so many tiles.

        Channels are then cut no finer than the pieces of weights demand.
        """
        channels = self.tiling.channels
        if channels > 1:
            least = -(-self.members[0].core_weight_bytes // WEIGHT_TILE_BYTES)
            fewer = -(-channels * self.tiling.rows // row_tiles)
            channels = min(channels, max(fewer, least, 2))
        return replace(self, tiling=Tiling(row_tiles, channels), stride=1)


def plan_groups(
    steps: tuple[Step, ...], reads: Reads, cluster: Cluster, ols: int | None
) -> tuple[Group, ...]:
    """Decide splits, groups and tiles, in order, since each follows from those before it."""
    planned = _splits(steps, reads, cluster)
    readers: dict[str, list[int]] = {}
    for index, step in enumerate(steps):
        for operand in step.operands:
            readers.setdefault(operand.tensor, []).append(index)
    groups: list[Group] = []
    start = 0
    while start < len(planned):
        before = groups[-1].tiling if groups else None
        tiling = _tiling(planned[start], before, ols or DEFAULT_OLS)
        end, by_sample = _group_end(planned, start, tiling, reads)
        members = tuple(planned[start:end])
        internal = _internal(members, start, end, readers)
        stride = _stride(members, tiling, ols or DEFAULT_OLS)
        groups.append(Group(members, tiling, internal, stride, by_sample))
        start = end
    return tuple(groups)


def _splits(steps: tuple[Step, ...], reads: Reads, cluster: Cluster) -> list[PlannedStep]:
    made: dict[str, PlannedStep] = {}
    for step in steps:
        makers = [made[operand.tensor] for operand in step.operands]
        main = _main(step, makers)
        before, source = (main.split, main.step.output) if main else (None, None)
        split = choose_split(step, before, source, cluster)
        exchanges = tuple(
            exchange_for(
                reads, step, operand, maker.step.output, (maker.split, split), cluster.num_cores
            )
            for operand, maker in zip(step.operands, makers, strict=True)
        )
        made[step.output.name] = PlannedStep(step, split, exchanges)
    return list(made.values())


def _main(step: Step, makers: list[PlannedStep]) -> PlannedStep | None:
    """Of what a step reads, that whose division it takes: a product's first, else the largest.

    A mask or a scale that stands first is small, and lies on few cores.
    """
    if step.matrix is not None or not makers:
        return next(iter(makers), None)
    return max(makers, key=lambda made: made.step.output.size_bytes)


def _tiling(plan: PlannedStep, before: Tiling | None, ols: int) -> Tiling:
    step = plan.step
    if step.matrix is not None:
        return tile_matrix(step.matrix, step.weight_bytes, step.output.size_bytes, plan.split, ols)
    return tile_vector(step, plan.split, before, ols)


def _group_end(
    planned: list[PlannedStep], start: int, tiling: Tiling, reads: Reads
) -> tuple[int, bool]:
    """The first step that cannot run tile by tile with those from `start` on; by sample or not."""
    end, by_sample = start + 1, False
    most = min(len(planned), start + MOST_MEMBERS)
    while end < most and _may_join(planned[end], planned[start:end]):
        members = planned[start : end + 1]
        found = next(
            (by for by in (by_sample, True) if _in_tiles(members, tiling, reads, by)), None
        )
        if found is None:
            break
        by_sample = found
        end += 1
    return end, by_sample


def _may_join(plan: PlannedStep, before: Sequence[PlannedStep]) -> bool:
    if plan.step.kind is not StepKind.VECTOR or plan.split != before[0].split:
        return False
    if any(any(exchange.sent_bytes) for exchange in plan.exchanges) or plan.step.table_bytes:
        return False
    made = {member.step.output.name for member in before}
    return any(operand.tensor in made for operand in plan.step.operands)


def _units(members: Sequence[PlannedStep], core: int, by_sample: bool) -> int:
    units = common_units([member.parts[core] for member in members])
    return gcd(units, members[0].split.samples_on(core)) if by_sample else units


def _in_tiles(
    members: Sequence[PlannedStep], tiling: Tiling, reads: Reads, by_sample: bool
) -> bool:
    """Whether the last member stays within the tiles of the others, however fine they are cut."""
    units = _units(members, 0, by_sample)
    if units > 1 and any(-(-m.core_output_bytes // units) > TILE_BYTES for m in members):
        return False
    made = {member.step.output.name: member for member in members[:-1]}
    cores = sorted({0, members[0].split.cores - 1})
    cuts = [_Cut(core, _units(members, core, by_sample), tiling) for core in cores]
    return all(
        _stays(members[-1], operand, made[operand.tensor], finest, reads)
        for operand in members[-1].step.operands
        for finest in cuts
        if operand.tensor in made
    )


class _Cut(NamedTuple):
    """The finest tiles that a group may be cut into on a core."""

    core: int
    units: int
    tiling: Tiling

    def tile(self, part: Region, index: int) -> Region:
        return tile(part, Tiling(self.units, self.tiling.channels), self.units, index)

    def probes(self) -> list[int]:
        """Tiles that stand for all: the first, one inside, the middle and the last."""
        count = self.units * self.tiling.channels
        return sorted({0, 1 % count, count // 2, count - 1})


def _stays(
    plan: PlannedStep, operand: Operand, maker: PlannedStep, finest: _Cut, reads: Reads
) -> bool:
    """Whether a tile of the step needs no more of an operand than the tile of the same number."""
    if operand.local and maker.step.output.extent == plan.step.output.extent:
        return True
    own, made = plan.parts[finest.core], maker.parts[finest.core]
    alike = plan.step.samplewise and plan.split.samples and maker.split.samples
    where: tuple[object, ...] = (own.size, made.size) if alike else (own, made)
    key = (reads.kind(plan.step), operand.index, maker.step.output.extent, finest, where)
    found = reads.stays.get(key)
    if found is None:
        found = reads.stays[key] = all(
            reads.needed(plan.step, operand, maker.step.output, finest.tile(own, index))[0].within(
                finest.tile(made, index)
            )
            for index in finest.probes()
        )
    return found


def _stride(members: tuple[PlannedStep, ...], tiling: Tiling, ols: int) -> int:
    if members[0].step.matrix is None or len(members) == 1:
        return 1
    return vector_stride(max(m.core_output_bytes for m in members[1:]), tiling, ols)


def _internal(
    members: tuple[PlannedStep, ...], start: int, end: int, readers: dict[str, list[int]]
) -> frozenset[str]:
    names = (member.step.output.name for member in members)
    return frozenset(
        name
        for name in names
        if name in readers and all(start <= index < end for index in readers[name])
    )
