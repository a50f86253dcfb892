"""The candidates that a search may ask: enumerated, so that an illegal one cannot be expressed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

from compiler.options import CompileOptions
from compiler.options import violations as compile_violations
from compiler.target import DeviceSpec
from configurator.errors import InfeasibleError, UsageError
from configurator.records import Candidate, Workflow
from runtime_sim.options import RunOptions
from runtime_sim.options import violations as run_violations

# One index an axis; see `SearchSpace`.
Point: TypeAlias = tuple[int, ...]

AXES = ("pair", "batch_size", "set_size")

# The vendor's tuning tutorials search 1 to 16.
LARGEST_BATCH_SIZE = 16
# qaic-runner outstands 10 inferences when it is not told (-S).
LARGEST_SET_SIZE = 10
# The vendor's tuning tutorials start from these cores, with batch size 1.
START_CORES = (1, 2, 4, 7, 14)
# assumed: far more than a search visits, and few enough to enumerate in a second.
MOST_POINTS = 1_000_000


def pair_order(pair: tuple[int, int]) -> tuple[int, int]:
    """Sorts (cores, instances) pairs by the NSPs that they use, then by cores.

    Pairs that leave no NSP idle, the likely best ones, become neighbours. On three closed-form
    cards of 2,050 points each, 8 seeds a card, TPE came within 1 % of the best after 27 to 36
    trials (medians) and always in 120; sorted by cores, then instances, after 51 to 85, and in 17
    of 24 runs it came within 2 % at all.
    """
    cores, instances = pair
    return (cores * instances, cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """Every combination of a (cores, instances) pair, a batch size and a set size.

    A point is one index into each of `pairs`, `batch_sizes` and `set_sizes`, in this order. The
    three are without repeats and sorted, pairs by `pair_order`, so that near indices mean near
    settings. `nsps` are the card's. What is not an axis is the same for all points.
    """

    nsps: int
    pairs: tuple[tuple[int, int], ...]
    batch_sizes: tuple[int, ...]
    set_sizes: tuple[int, ...]
    ols: int | None = None
    mos: int | None = None
    multicast_weights: bool = True
    symbols: tuple[tuple[str, int], ...] = ()
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        """Refuse a space that is empty, unsorted, or holds what the card cannot run."""
        if not self.size:
            raise ValueError(f"an axis is empty: shape {self.shape}")
        if list(self.pairs) != sorted(set(self.pairs), key=pair_order):
            raise ValueError(f"pairs are unsorted or repeat themselves: {self.pairs}")
        for sizes in (self.batch_sizes, self.set_sizes):
            if list(sizes) != sorted(set(sizes)):
                raise ValueError(f"sizes are unsorted or repeat themselves: {sizes}")
        if any(min(pair) < 1 or prod(pair) > self.nsps for pair in self.pairs):
            raise ValueError(f"a pair of {self.pairs} does not fit {self.nsps} NSPs")
        if self.batch_sizes[0] < 1 or self.set_sizes[0] < 1:
            raise ValueError("a batch size or set size is below 1")
        fewest_cores = min(cores for cores, _ in self.pairs)
        if self.mos is not None and not 1 <= self.mos <= fewest_cores:
            raise ValueError(f"mos is {self.mos}, the fewest cores are {fewest_cores}")
        if self.ols is not None and self.ols < 1:
            raise ValueError(f"ols is {self.ols}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values on each axis of `AXES`."""
        return (len(self.pairs), len(self.batch_sizes), len(self.set_sizes))

    @property
    def size(self) -> int:
        """The number of points."""
        return prod(self.shape)

    def points(self) -> Iterator[Point]:
        """Every point, the last axis running fastest."""
        return product(*(range(length) for length in self.shape))

    def candidates(self) -> Iterator[Candidate]:
        """Every candidate, in the order of `points`."""
        return (self.candidate(point) for point in self.points())

    def candidate(self, point: Point) -> Candidate:
        """What `point` means; `IndexError` outside the space."""
        if len(point) != len(self.shape) or min(point) < 0:
            raise IndexError(f"{point} is no point of a space of shape {self.shape}")
        pair, batch_size, set_size = point
        cores, instances = self.pairs[pair]
        return self._candidate(
            cores, instances, self.batch_sizes[batch_size], self.set_sizes[set_size]
        )

    def point(self, candidate: Candidate) -> Point | None:
        """Where `candidate` lies; None when it is not of this space."""
        chosen, run = candidate.compile, candidate.run
        pair = (chosen.num_cores, run.instances)
        if pair not in self.pairs or chosen.batch_size not in self.batch_sizes:
            return None
        if run.set_size not in self.set_sizes:
            return None
        point = (
            self.pairs.index(pair),
            self.batch_sizes.index(chosen.batch_size),
            self.set_sizes.index(run.set_size),
        )
        return point if self.candidate(point) == candidate else None

    def __contains__(self, candidate: Candidate) -> bool:
        """Whether a search of this space may ask `candidate`."""
        return self.point(candidate) is not None

    def baseline(self, workflow: Workflow) -> Candidate:
        """What a user runs who has not tuned: all cores, one instance, batch 1.

        It need not be in the space, since the user may have fixed other values.
        """
        return self._candidate(self.nsps, 1, 1, _start_set_size(workflow, self.set_sizes))

    def starts(self, workflow: Workflow) -> tuple[Candidate, ...]:
        """What a search asks first, as far as the space holds it.

        The baseline, then what the vendor's tutorials start from: as many instances as the card
        has room for, or one for least latency.
        """
        cores = sorted({*START_CORES, self.nsps} & {cores for cores, _ in self.pairs})
        set_size = _start_set_size(workflow, self.set_sizes)
        vendor = (
            self._candidate(
                count,
                _start_instances(workflow, self.nsps, count),
                self.batch_sizes[0],
                set_size,
            )
            for count in cores
        )
        found = dict.fromkeys((self.baseline(workflow), *vendor))
        return tuple(candidate for candidate in found if candidate in self)

    def _candidate(self, cores: int, instances: int, batch_size: int, set_size: int) -> Candidate:
        return Candidate(
            CompileOptions(
                num_cores=cores,
                batch_size=batch_size,
                ols=self.ols,
                mos=self.mos,
                multicast_weights=self.multicast_weights,
                symbols=self.symbols,
                input_shapes=self.input_shapes,
            ),
            RunOptions(instances=instances, set_size=set_size),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a user fixed or listed; `None` leaves a knob to the workflow, or to the compiler."""

    cores: tuple[int, ...] | None = None
    instances: tuple[int, ...] | None = None
    batch_sizes: tuple[int, ...] | None = None
    set_sizes: tuple[int, ...] | None = None
    ols: int | None = None
    mos: int | None = None
    multicast_weights: bool = True
    symbols: tuple[tuple[str, int], ...] = ()
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()


def space_for(
    workflow: Workflow, device: DeviceSpec, choices: Choices | None = None
) -> SearchSpace:
    """The space of a workflow on a card, narrowed to what the user chose.

    Throughput searches batch sizes in powers of two and set sizes; least latency fixes both to 1
    unless told. `UsageError` for a value that this card cannot have whatever the rest is,
    `InfeasibleError` where each value is possible and no combination is.
    """
    chosen = choices or Choices()
    counts = tuple(range(1, device.nsps + 1))
    cores = _sorted("cores", chosen.cores, counts)
    instances = _sorted("instances", chosen.instances, counts)
    batch_sizes = _sorted("batch sizes", chosen.batch_sizes, _batch_sizes(workflow))
    set_sizes = _sorted("set sizes", chosen.set_sizes, _set_sizes(workflow))
    _refuse_values(device, cores, instances, batch_sizes, set_sizes)
    _refuse_splits(device, chosen)
    return SearchSpace(
        nsps=device.nsps,
        pairs=_pairs(device, cores, instances, chosen.mos),
        batch_sizes=batch_sizes,
        set_sizes=set_sizes,
        ols=chosen.ols,
        mos=chosen.mos,
        multicast_weights=chosen.multicast_weights,
        symbols=chosen.symbols,
        input_shapes=chosen.input_shapes,
    )


def _batch_sizes(workflow: Workflow) -> tuple[int, ...]:
    if workflow is Workflow.LATENCY:
        return (1,)
    return tuple(1 << power for power in range(LARGEST_BATCH_SIZE.bit_length()))


def _set_sizes(workflow: Workflow) -> tuple[int, ...]:
    return (1,) if workflow is Workflow.LATENCY else tuple(range(1, LARGEST_SET_SIZE + 1))


def _start_set_size(workflow: Workflow, set_sizes: tuple[int, ...]) -> int:
    """The workflow's default, or the nearest value that the user allows."""
    default = _set_sizes(workflow)[-1]
    return min(set_sizes, key=lambda value: abs(value - default))


def _start_instances(workflow: Workflow, nsps: int, cores: int) -> int:
    return 1 if workflow is Workflow.LATENCY else nsps // cores


def _sorted(
    name: str, chosen: tuple[int, ...] | None, default: tuple[int, ...]
) -> tuple[int, ...]:
    if chosen is None:
        return default
    if not chosen:
        raise UsageError(f"{name}: no value is left to choose from; give at least one")
    return tuple(sorted(set(chosen)))


def _refuse_values(
    device: DeviceSpec,
    cores: tuple[int, ...],
    instances: tuple[int, ...],
    batch_sizes: tuple[int, ...],
    set_sizes: tuple[int, ...],
) -> None:
    """`UsageError` for the first value that would be wrong beside any other values."""
    compiled = [CompileOptions(num_cores=count) for count in cores]
    compiled += [CompileOptions(num_cores=1, batch_size=size) for size in batch_sizes]
    running = [RunOptions(instances=count) for count in instances]
    running += [RunOptions(instances=1, set_size=size) for size in set_sizes]
    found = [reason for options in compiled for reason in compile_violations(options, device)]
    found += [reason for options in running for reason in run_violations(options, 1, device)]
    if found:
        raise UsageError(found[0])
    size = len(cores) * len(instances) * len(batch_sizes) * len(set_sizes)
    if size > MOST_POINTS:
        raise UsageError(
            f"the space has about {size:,} points, at most {MOST_POINTS:,} can be searched; "
            "list fewer batch sizes or set sizes"
        )


def _refuse_splits(device: DeviceSpec, chosen: Choices) -> None:
    most = max(chosen.cores or (device.nsps,))
    options = CompileOptions(num_cores=most, ols=chosen.ols, mos=chosen.mos)
    reasons = compile_violations(options, device)
    if reasons:
        raise UsageError(reasons[0])


def _pairs(
    device: DeviceSpec, cores: tuple[int, ...], instances: tuple[int, ...], mos: int | None
) -> tuple[tuple[int, int], ...]:
    """Those that the card has room for, by `pair_order`."""
    wide_enough = [count for count in cores if count >= (mos or 1)]
    pairs = [pair for pair in product(wide_enough, instances) if prod(pair) <= device.nsps]
    if not pairs:
        fewest = RunOptions(instances=instances[0])
        raise InfeasibleError("; ".join(run_violations(fewest, wide_enough[0], device)))
    return tuple(sorted(pairs, key=pair_order))
