"""How a step's work is divided over the cores of an instance, and what that makes them exchange.

A batch of at least as many samples as there are cores is dealt out in whole samples: nothing to
exchange, but where it does not divide evenly the fullest core sets the pace. (The published
sweeps of real cards say so: BERT-base at batch 16 runs on 12 cores at two thirds of the rate per
core that it has on 8.) Fewer samples than cores are cut into lines, laid end to end. Output
channels may be divided as well, over at most `mos` cores: each core then holds fewer weights, but
the next operator must gather all channels first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from compiler.schedule.cost import matrix_cycles, read_cycles, send_cycles
from compiler.schedule.steps import BLOCK, MatrixWork, Step, Tensor

GATHER_BYTES = 2 << 20
"""assumed: a quarter of VTCM is the most that an unasked channel split may fill with gathered
input; the rest must hold weights and the split output."""

SEEN_SHARE = 0.25
"""assumed: of compute or of reading weights, what the longer of both does not hide: the first
piece must be there before anything starts, the last one is worked on when all has been read."""

MEETING_CYCLES = 7000
"""assumed: what it costs that all cores of an instance meet, skew included. The published
ResNet-50 of batch 1 takes 14 us a convolution on 11 cores, half of it products and weights."""


class Split(NamedTuple):
    """`rows` groups of cores, each of `channels` cores by output channels.

    `samples` is the batch where whole samples are dealt out to the groups, 0 where lines are.
    """

    rows: int
    channels: int
    samples: int = 0

    @property
    def cores(self) -> int:
        """Cores that have a part."""
        return self.rows * self.channels

    def part(self, total: int, group: int) -> int:
        """What one group of cores has of `total`; the parts add up."""
        units = self.samples or total
        first, end = units * group // self.rows, units * (group + 1) // self.rows
        return total * end // max(units, 1) - total * first // max(units, 1)

    def largest(self, total: int) -> int:
        """What the fullest group of cores has of `total`."""
        units = self.samples or total
        return -(-total * -(-units // self.rows) // max(units, 1))

    def samples_on(self, core: int) -> int:
        """Whole samples that a core has; 1 where lines are dealt out."""
        if not self.samples:
            return 1
        group = core // self.channels
        units = self.samples
        return max(1, units * (group + 1) // self.rows - units * group // self.rows)

    def core_part(self, total: int, core: int) -> int:
        """What one core has of `total`."""
        group, channel = divmod(core, self.channels)
        part = self.part(total, group)
        return part * (channel + 1) // self.channels - part * channel // self.channels

    def core_largest(self, total: int) -> int:
        """What the fullest core has of `total`."""
        return -(-self.largest(total) // self.channels)

    def like(self, other: Split) -> bool:
        """Whether both put the same part of a sample on the same core."""
        return (
            self.rows == other.rows
            and self.channels == other.channels
            and (self.samples > 0) == (other.samples > 0)
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cores that a program is divided over, and what the options say of it."""

    num_cores: int
    mos: int | None
    multicast_weights: bool


def choose_split(step: Step, held: Split | None, source: Tensor | None, cluster: Cluster) -> Split:
    """The division of `step`, whose first operand is `source` and is `held` so."""
    work = step.matrix
    row_units = max(step.output.row_units, source.row_units if source else 1)
    samples = step.samples if step.samplewise else 0
    if work is None or not step.weight_bytes:
        return _rows_split(held, row_units, samples, cluster)
    if work.channelwise and held is not None and held.channels > 1:
        return _rows_split(held, row_units, samples, cluster)
    input_bytes = source.size_bytes if source else 0
    row_units = min(row_units, work.rows)
    return _matrix_split(work, step.weight_bytes, input_bytes, row_units, samples, cluster)


def _rows_split(held: Split | None, row_units: int, samples: int, cluster: Cluster) -> Split:
    """The division that an operand has already; only how many samples it counts may differ."""
    if held is None or (held.samples and not samples):
        return _split(cluster.num_cores, 1, row_units, samples)
    return Split(held.rows, held.channels, samples if held.samples else 0)


def _split(cores: int, channels: int, row_units: int, samples: int) -> Split:
    rows = min(cores // channels, row_units)
    return Split(rows, channels, samples if samples >= rows else 0)


@lru_cache(maxsize=65536)
def _matrix_split(
    work: MatrixWork,
    weight_bytes: int,
    input_bytes: int,
    row_units: int,
    samples: int,
    cluster: Cluster,
) -> Split:
    options = [
        _split(cluster.num_cores, channels, row_units, samples)
        for channels in range(1, cluster.num_cores + 1)
        if cluster.num_cores % channels == 0
        and (channels == 1 or work.outputs >= BLOCK * channels)
    ]
    allowed = [s for s in options if s.channels <= (cluster.mos or cluster.num_cores)]
    roomy = [s for s in allowed if s.channels == 1 or s.largest(input_bytes) <= GATHER_BYTES]
    return min(roomy, key=lambda split: _split_cycles(work, weight_bytes, split, cluster))


def _split_cycles(work: MatrixWork, weight_bytes: int, split: Split, cluster: Cluster) -> float:
    """Nominal cycles of a product so divided, with what the division makes the cores exchange.

    The longer of compute and reading weights, what does not hide of the shorter, and a meeting of
    the cores before each product that needs more than a core's own rows.
    """
    rows, outputs = split.largest(work.rows), -(-work.outputs // split.channels)
    compute = matrix_cycles(rows, work.inputs, outputs, work.repeats)
    copies = 1 if cluster.multicast_weights else split.rows
    weights = read_cycles(weight_bytes * copies, split.cores)
    return max(compute, weights) + SEEN_SHARE * min(compute, weights) + _meeting(work, split)


def _meeting(work: MatrixWork, split: Split) -> float:
    if split.channels > 1:
        return MEETING_CYCLES + send_cycles(work.rows * work.outputs * 2)
    borders = work.repeats > 1 and split.rows > 1 and not split.samples
    return MEETING_CYCLES if borders else 0.0
