"""How a step's work is divided over the cores of an instance, and what that makes them exchange.

Rows are the samples' lines laid end to end: a core gets a contiguous range of them, so that a
batch that divides evenly leaves whole samples on each core and nothing to exchange. Output
channels may be divided as well (`mos`): each core then holds fewer weights, but the next operator
must gather all channels first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from compiler.schedule.cost import matrix_cycles, transfer_cycles
from compiler.schedule.steps import BLOCK, Access, MatrixWork, Operand, Step, StepKind


@dataclass(frozen=True, slots=True)
class Split:
    """`rows` groups of cores by lines, each of `channels` cores by output channels."""

    rows: int
    channels: int

    @property
    def cores(self) -> int:
        """Cores that have a part."""
        return self.rows * self.channels


@dataclass(frozen=True, slots=True)
class Exchange:
    """What each core sends before a step can start: `sent_bytes` to `receivers` others at once."""

    sent_bytes: int
    receivers: int


NO_EXCHANGE = Exchange(0, 0)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cores and samples that a program is divided over."""

    num_cores: int
    batch_size: int
    mos: int | None
    multicast_weights: bool


def choose_split(step: Step, held: Split | None, row_units: int, cluster: Cluster) -> Split:
    """The division of `step`, whose first operand is `held` so and can be cut in `row_units`."""
    work = step.matrix
    if work is None or not step.weight_bytes:
        return held if held is not None else Split(min(cluster.num_cores, row_units), 1)
    if work.channelwise and held is not None and held.channels > 1:
        return held
    return _matrix_split(work, step.weight_bytes, row_units, cluster)


@lru_cache(maxsize=65536)
def _matrix_split(work: MatrixWork, weight_bytes: int, row_units: int, cluster: Cluster) -> Split:
    options = [
        Split(min(cluster.num_cores // channels, row_units), channels)
        for channels in range(1, cluster.num_cores + 1)
        if cluster.num_cores % channels == 0
        and (channels == 1 or work.outputs >= BLOCK * channels)
    ]
    if cluster.mos is not None:
        wanted = max(split.channels for split in options if split.channels <= cluster.mos)
        return next(split for split in options if split.channels == wanted)
    return min(options, key=lambda split: _split_cycles(work, weight_bytes, split, cluster))


def _split_cycles(work: MatrixWork, weight_bytes: int, split: Split, cluster: Cluster) -> float:
    """Nominal cycles of a product so divided: compute or weights, then gathering its channels."""
    rows, outputs = -(-work.rows // split.rows), -(-work.outputs // split.channels)
    compute = matrix_cycles(rows, work.inputs, outputs, work.repeats)
    copies = 1 if cluster.multicast_weights else split.rows
    weights = transfer_cycles(ddr_bytes=weight_bytes * copies)
    output_bytes = work.rows * work.outputs * 2
    gather = transfer_cycles(noc_bytes=output_bytes) if split.channels > 1 else 0.0
    return max(compute, weights) + gather


def exchange_for(
    step: Step, operand: Operand, size_bytes: int, held: Split, split: Split, cluster: Cluster
) -> Exchange:
    """What the cores must send so that each has its part of `operand` for `step`."""
    if cluster.num_cores == 1:
        return NO_EXCHANGE
    share = -(-size_bytes // held.cores)
    whole_samples = cluster.batch_size % held.rows == 0 and held.channels == 1
    if operand.access is Access.GROUP:
        return NO_EXCHANGE if whole_samples else Exchange(share, _peers(step, cluster))
    if operand.access is Access.REMAP:
        return NO_EXCHANGE if whole_samples else _remap(share, held, cluster)
    if held == split and (held.channels == 1 or operand.access in (Access.LOCAL, Access.HALO)):
        cut = operand.halo_bytes > 0 and cluster.batch_size % held.rows != 0
        return Exchange(operand.halo_bytes, 1) if cut else NO_EXCHANGE
    if split.rows == cluster.num_cores:
        return _remap(share, held, cluster)
    return Exchange(share, max(1, min(cluster.num_cores // split.rows, cluster.num_cores) - 1))


def _remap(share_bytes: int, held: Split, cluster: Cluster) -> Exchange:
    """Each core sends on what other cores of the same sample need of its share."""
    cores_per_sample = max(1.0, cluster.num_cores / cluster.batch_size)
    moved = (
        1 - 1 / cores_per_sample if cores_per_sample > 1 else held.rows / cluster.batch_size / 2
    )
    return Exchange(int(share_bytes * min(moved, 1.0)), 1)


def _peers(step: Step, cluster: Cluster) -> int:
    """Cores that share one matrix of a stack with another core."""
    if step.kind is not StepKind.MATRIX:
        return 1
    return max(1, min(cluster.num_cores - 1, cluster.num_cores // cluster.batch_size - 1))
