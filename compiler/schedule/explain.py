"""Why a layer is split, tiled and placed as it is, in words for the user."""

from __future__ import annotations

from compiler.schedule.names import whole_name
from compiler.schedule.plan import Group, PlannedStep
from compiler.schedule.residency import MIB, GroupMemory
from compiler.schedule.tiling import TILE_BYTES, WEIGHT_TILE_BYTES

KIB = 1 << 10


def why(group: Group, member: PlannedStep, memory: GroupMemory, *, first: bool) -> str:
    """Reasons, separated by semicolons; those of a group's memory stand with its first member."""
    reasons = [_split(member), _tiles(group, member), _exchanged(member)]
    if first:
        reasons += [_moved(memory), _waits(memory)]
    return "; ".join(reason for reason in reasons if reason)


def _split(member: PlannedStep) -> str:
    split, step = member.split, member.step
    if split.cores == 1:
        return "one core"
    parts = []
    if split.rows > 1 and split.samples:
        parts.append(f"{split.samples} samples dealt to {split.rows} groups of cores")
    elif split.rows > 1:
        parts.append(f"{step.output.row_units} lines cut for {split.rows} groups of cores")
    if split.channels > 1:
        weights = step.weight_bytes / MIB
        parts.append(f"{weights:.2f} MiB of weights over {split.channels} cores by channel")
    return ", ".join(parts)


def _tiles(group: Group, member: PlannedStep) -> str:
    tiling = group.tiling
    if tiling.count == 1:
        return ""
    tile = -(-member.core_output_bytes // tiling.count) / KIB
    if tiling.channels > 1:
        weights = group.chunk_bytes(group.members[0]) / KIB
        limit = WEIGHT_TILE_BYTES // KIB
        each = f"{weights:.0f} KiB of weights each, at most {limit}"
        return f"{tiling.count} tiles of {tile:.0f} KiB: {each}"
    return f"{tiling.count} tiles of {tile:.0f} KiB (at most {TILE_BYTES // KIB}, then ols)"


def _exchanged(member: PlannedStep) -> str:
    received = member.core_gather_bytes()
    return f"a core receives {received / KIB:.0f} KiB of other cores' parts" if received else ""


def _moved(memory: GroupMemory) -> str:
    if not memory.moves:
        return ""
    moved = [
        *(f"{whole_name(name)} comes back from DDR" for name in memory.reload),
        *(f"{whole_name(name)} streams through in tiles" for name in memory.stream_in),
        *(f"{whole_name(name)} goes to DDR" for name in sorted(memory.write_back)),
    ]
    return f"VTCM holds {memory.used_bytes / MIB:.2f} MiB, so that " + ", ".join(moved)


def _waits(memory: GroupMemory) -> str:
    return f"takes the room of group {memory.after}" if memory.after >= 0 else ""
