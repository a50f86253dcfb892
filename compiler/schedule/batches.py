"""Working through a large batch in smaller ones, as far into the model as activations are large.

The first layers of an image network make tensors that a whole batch's worth of does not fit VTCM.
Instead of moving them to DDR and back, the steps up to some point run for a few samples at a time;
from there on the whole batch goes together, so that the many weights of the later layers are read
once. The price is reading the early layers' weights once for each part of the batch. Since
activations shrink and weights grow from layer to layer, the first steps of a part may be worked
through in parts of it in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, combinations

from compiler.schedule.limits import Limits
from compiler.schedule.names import is_part, part_name
from compiler.schedule.partition import Cluster
from compiler.schedule.plan import SMALL_CONSTANT_BYTES, Group, plan_groups
from compiler.schedule.reads import Reads
from compiler.schedule.residency import Residency, bytes_by_step, dram_bytes, plan_residency
from compiler.schedule.steps import (
    MatrixWork,
    Operand,
    Step,
    StepKind,
    Tensor,
    VectorWork,
)

Planned = tuple[tuple[Group, ...], Residency]

_BOUNDARIES = 3
"""assumed: points after the last tight one that are tried as the end of the smaller batches."""


@dataclass(frozen=True, slots=True)
class DepthFirst:
    """Whether parts of the batch go deep into the model before the next part starts.

    `wanted` is `None` where that is left to us. `chain_bytes` is what such a chain may fill of
    each core; `None` is all of it.
    """

    wanted: bool | None = None
    chain_bytes: int | None = None


def plan_batches(
    steps: tuple[Step, ...],
    reads: Reads,
    cluster: Cluster,
    ols: int | None,
    limits: Limits,
    depth_first: DepthFirst,
) -> Planned:
    """The plan that moves the fewest bytes to and from DDR, among whole batch and parts of it.

    Where depth-first is asked for, the whole batch is taken only if there is nothing to cut.
    """

    def planned(cut: tuple[Step, ...]) -> Planned:
        return _plan(cut, reads, cluster, ols, limits)

    whole = planned(steps)
    if depth_first.wanted is False or not (whole[1].spills or depth_first.wanted):
        return whole
    sizes = _part_sizes(steps[0].samples, cluster.num_cores)
    candidates = _in_parts(steps, _ends(steps, whole), sizes, planned, cluster, depth_first)
    if not depth_first.wanted or not candidates:
        candidates.append(whole)
    fitting = [plan for plan in candidates if _chain_fits(plan, depth_first)] or candidates
    return min(fitting, key=lambda plan: _traffic(plan, cluster))


def _in_parts(
    steps: tuple[Step, ...],
    ends: list[int],
    sizes: list[int],
    planned: Callable[[tuple[Step, ...]], Planned],
    cluster: Cluster,
    depth_first: DepthFirst,
) -> list[Planned]:
    """Plans that go in parts, those worth a try.

    Where to end is decided with the largest parts, which are quickest to plan: smaller ones move
    less activations whatever the end. Once nothing spills, a later end or a smaller part can only
    read weights more often.
    """
    if not ends or not sizes:
        return []
    found: list[Planned] = []
    for end in ends:
        found.append(planned(split_batch(steps, end, sizes[0])))
        if not found[-1][1].spills and _chain_fits(found[-1], depth_first):
            break
    best = min(found, key=lambda plan: _traffic(plan, cluster))
    end = ends[found.index(best)]
    by_size = {sizes[0]: best}
    for samples in sizes[1:]:
        rereads = _rereads_more(steps[:end], samples, best, cluster)
        if _chain_fits(best, depth_first) and (rereads or not best[1].spills):
            break
        by_size[samples] = planned(split_batch(steps, end, samples))
        best = min(best, by_size[samples], key=lambda plan: _traffic(plan, cluster))
    found += by_size.values()
    if best[1].spills or not best[1].weights_resident:
        found += [planned(cut) for cut in _parts_of_parts(steps, end, by_size, cluster)]
    return found


def _parts_of_parts(
    steps: tuple[Step, ...], end: int, by_size: dict[int, Planned], cluster: Cluster
) -> list[tuple[Step, ...]]:
    """The cut that promises the least traffic, where it promises less than every single size.

    Promised is what the steps before it move in small parts, and those behind it in large ones.
    """
    names = [step.name for step in steps[:end]]
    moved = {}
    for samples, plan in by_size.items():
        of_step = bytes_by_step(*plan, cluster)
        moved[samples] = list(accumulate((of_step[name] for name in names), initial=0))
    promised = [
        (moved[small][cut] + moved[large][end] - moved[large][cut], small, large, cut)
        for large, small in combinations(sorted(moved, reverse=True), 2)
        for cut in range(1, end)
    ]
    if not promised:
        return []
    # Of equal promises the one of larger parts, which are fewer.
    least, small, large, cut = min(promised, key=lambda found: (found[0], -found[1], *found[2:]))
    if least >= min(sums[end] for sums in moved.values()):
        return []
    return [split_twice(steps, end, large, cut, small)]


def _rereads_more(early: tuple[Step, ...], samples: int, best: Planned, cluster: Cluster) -> bool:
    """Whether the weights alone, read for each part, are more than all that `best` moves."""
    if best[1].weights_resident:
        return False
    parts = -(-early[0].samples // samples)
    weights = sum(step.weight_bytes for step in early if step.weight_bytes > SMALL_CONSTANT_BYTES)
    return weights * parts > dram_bytes(*best, cluster)


def _traffic(plan: Planned, cluster: Cluster) -> tuple[int, int]:
    """What a plan costs; of equal traffic the one of fewer groups."""
    return dram_bytes(plan[0], plan[1], cluster), len(plan[0])


def _chain_fits(plan: Planned, depth_first: DepthFirst) -> bool:
    """Whether the parts of the batch stay within the room that a chain may fill."""
    if depth_first.chain_bytes is None:
        return True
    groups, residency = plan
    return all(
        memory.used_bytes <= depth_first.chain_bytes
        for group, memory in zip(groups, residency.groups, strict=True)
        if is_part(group.name_of_output)
    )


def _plan(
    steps: tuple[Step, ...], reads: Reads, cluster: Cluster, ols: int | None, limits: Limits
) -> Planned:
    groups = plan_groups(steps, reads, cluster, ols)
    return groups, plan_residency(groups, limits)


def _part_sizes(samples: int, num_cores: int) -> list[int]:
    """Samples of a part, largest first: so many to a core that each core has the same."""
    sizes = []
    each = -(-samples // num_cores)
    while each > 1:
        each = -(-each // 2)
        if each * num_cores < samples:
            sizes.append(each * num_cores)
    return sizes


def _ends(steps: tuple[Step, ...], whole: Planned) -> list[int]:
    """Numbers of steps after which the whole batch may go together again.

    The last group that spills must be before, and no step that mixes samples; of the points behind
    it the ones with the least to carry over are tried, and the end of the model.
    """
    groups, residency = whole
    tight = max((i for i, memory in enumerate(residency.groups) if memory.moves), default=0)
    counts, total = [], 0
    for group in groups:
        total += len(group.members)
        counts.append(total)
    leaving = (StepKind.OUTPUT, StepKind.SEND)
    last = next(i for i, step in enumerate(steps) if step.kind in leaving)
    mixing = next((i for i, step in enumerate(steps) if not step.samplewise), last)
    crossing = {end: _carried_bytes(steps, end) for end in counts[tight:] if end < last}
    nearest = sorted(crossing, key=lambda end: (crossing[end], end))[:_BOUNDARIES]
    return sorted(end for end in {*nearest, last} if end <= mixing)


def _carried_bytes(steps: tuple[Step, ...], end: int) -> int:
    """Bytes of tensors that are made before step `end` and read after."""
    made = {step.output.name: step.output.size_bytes for step in steps[:end]}
    read = {operand.tensor for step in steps[end:] for operand in step.operands}
    return sum(size for name, size in made.items() if name in read)


def split_batch(steps: tuple[Step, ...], end: int, samples: int) -> tuple[Step, ...]:
    """The steps with the first `end` of them run for `samples` at a time."""
    total = steps[0].samples
    starts = range(0, total, samples)
    parts = [
        _part(step, min(samples, total - start), start) for start in starts for step in steps[:end]
    ]
    made = {step.output.name for step in steps[:end]}
    return (*parts, *(_joined(step, made, starts) for step in steps[end:]))


def split_twice(
    steps: tuple[Step, ...], end: int, samples: int, inner_end: int, inner_samples: int
) -> tuple[Step, ...]:
    """As `split_batch`, and in each part the first `inner_end` steps for `inner_samples`."""
    outer = split_batch(steps, end, samples)
    parts = range(0, steps[0].samples, samples)
    cut: list[Step] = []
    rest = outer[len(parts) * end :]
    for number in range(len(parts)):
        part = outer[number * end : (number + 1) * end]
        cut += split_batch(part, inner_end, inner_samples)
        made = {step.output.name for step in part[:inner_end]}
        starts = range(0, part[0].samples, inner_samples)
        rest = tuple(_joined(step, made, starts) for step in rest)
    return (*cut, *rest)


def _part(step: Step, samples: int, start: int) -> Step:
    """A step for some of its samples; what is independent of the batch stays as it is."""
    total = step.samples

    def share(count: int) -> int:
        return -(-count * samples // total)

    matrix = step.matrix
    return Step(
        step.name,
        step.op,
        step.kind,
        operands=tuple(_part_operand(operand, start) for operand in step.operands),
        output=_part_tensor(step.output, share(step.output.size_bytes), samples, total, start),
        shape=step.shape,
        matrix=None if matrix is None else _part_matrix(matrix, samples, total),
        vector=tuple(VectorWork(v.op, share(v.elements)) for v in step.vector),
        weight_bytes=step.weight_bytes,
        packed_bytes=step.packed_bytes,
        table_bytes=share(step.table_bytes),
        host_bytes=share(step.host_bytes),
        samples=samples,
        samplewise=step.samplewise,
        nodes=step.nodes,
        sources=step.sources,
    )


def _part_operand(operand: Operand, start: int) -> Operand:
    tensor = part_name(operand.tensor, start)
    return Operand(tensor, operand.value, operand.index, operand.local)


def _part_tensor(tensor: Tensor, size_bytes: int, samples: int, total: int, start: int) -> Tensor:
    each = tensor.row_units // total
    first = tensor.first_row + each * start
    return Tensor(
        part_name(tensor.name, start), size_bytes, tensor.extent, first, first + each * samples
    )


def _part_matrix(matrix: MatrixWork, samples: int, total: int) -> MatrixWork:
    rows = -(-matrix.rows * samples // total)
    return matrix._replace(rows=rows, macs=matrix.macs * samples // total)


def _joined(step: Step, made: set[str], starts: range) -> Step:
    """A step of the whole batch that reads the parts where it read the whole."""
    if not any(operand.tensor in made for operand in step.operands):
        return step
    return replace(step, operands=tuple(_operands(step, made, starts)))


def _operands(step: Step, made: set[str], starts: range) -> Iterator[Operand]:
    for operand in step.operands:
        if operand.tensor not in made:
            yield operand
            continue
        for start in starts:
            yield _part_operand(operand, start)
