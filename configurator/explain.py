"""What the compiler decided for each layer, and what that costs: counted from the tasks.

Bytes and operations are those of one inference of the whole batch, over all cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from compiler.program import Layer, Program, TaskKind
from configurator.tables import grid

_KIB = 1 << 10

_PRODUCTS = (TaskKind.MATMUL, TaskKind.MATMUL_INT8)


@dataclass(frozen=True, slots=True)
class LayerWork:
    """A layer with the sums of its tasks.

    `read_constant_bytes` and `read_activation_bytes` come from DDR, `written_bytes` go there;
    `sent_bytes` leave cores for others, a multicast counted once. `hmx_macs` are those that the
    tensor units do: a depthwise convolution runs there as a dense one, in blocks of channels, so
    that they are more than the `macs` that the layer asks for.
    `cores` is how many have computing tasks of the layer.
    """

    layer: Layer
    tasks: int
    cores: int
    hmx_macs: int
    vector_elements: int
    read_constant_bytes: int
    read_activation_bytes: int
    written_bytes: int
    sent_bytes: int

    @property
    def ddr_bytes(self) -> int:
        """Bytes that cross the border to DDR, both ways."""
        return self.read_constant_bytes + self.read_activation_bytes + self.written_bytes


def layer_works(program: Program) -> tuple[LayerWork, ...]:
    """One entry a layer, in the order of the program."""
    tasks, count = program.tasks, len(program.layers)
    reads = tasks.kind == TaskKind.READ
    products = np.isin(tasks.kind, _PRODUCTS)
    vectors = tasks.kind == TaskKind.VECTOR

    def total(chosen: NDArray[np.bool_], work: NDArray[np.int64]) -> list[int]:
        sums = np.zeros(count, np.int64)
        np.add.at(sums, tasks.layer[chosen], work[chosen])
        return [int(value) for value in sums]

    macs = tasks.w0 * tasks.w1 * tasks.w2 * tasks.w3
    columns = zip(
        program.layers,
        np.bincount(tasks.layer, minlength=count).tolist(),
        _cores(program, products | vectors),
        total(products, macs),
        total(vectors, tasks.w0),
        total(reads & (tasks.w1 == 0), tasks.w0),
        total(reads & (tasks.w1 != 0), tasks.w0),
        total(tasks.kind == TaskKind.WRITE, tasks.w0),
        total(tasks.receivers > 0, tasks.w0),
        strict=True,
    )
    return tuple(LayerWork(*row) for row in columns)


def _cores(program: Program, computing: NDArray[np.bool_]) -> list[int]:
    tasks, cores = program.tasks, program.options.num_cores
    pairs = np.unique(tasks.layer[computing].astype(np.int64) * cores + tasks.core[computing])
    counts = np.bincount(pairs // cores, minlength=len(program.layers))
    return [int(count) for count in counts]


def document(program: Program) -> dict[str, object]:
    """What `compile --explain --json` adds: the layers, and their sums."""
    works = layer_works(program)
    return {"layers": [_layer_document(work) for work in works], "total": _total(works)}


def _layer_document(work: LayerWork) -> dict[str, object]:
    layer = work.layer
    return {
        "name": layer.name,
        "op": layer.op,
        "shape": list(layer.output_shape),
        "split": layer.split,
        "cores": work.cores,
        "tiles": layer.tiles,
        "tile_bytes": layer.tile_bytes,
        "vtcm_bytes": layer.vtcm_bytes,
        "weight_bytes": layer.weight_bytes,
        "output_bytes": layer.output_bytes,
        "macs": layer.macs,
        "hmx_macs": work.hmx_macs,
        "vector_elements": work.vector_elements,
        "ddr_read_constant_bytes": work.read_constant_bytes,
        "ddr_read_activation_bytes": work.read_activation_bytes,
        "ddr_written_bytes": work.written_bytes,
        "spill_bytes": layer.spill_bytes,
        "sent_bytes": work.sent_bytes,
        "tasks": work.tasks,
        "why": [reason for reason in layer.why.split("; ") if reason],
    }


def _total(works: Sequence[LayerWork]) -> dict[str, int]:
    return {
        "macs": sum(work.layer.macs for work in works),
        "hmx_macs": sum(work.hmx_macs for work in works),
        "vector_elements": sum(work.vector_elements for work in works),
        "ddr_read_constant_bytes": sum(work.read_constant_bytes for work in works),
        "ddr_read_activation_bytes": sum(work.read_activation_bytes for work in works),
        "ddr_written_bytes": sum(work.written_bytes for work in works),
        "spill_bytes": sum(work.layer.spill_bytes for work in works),
        "sent_bytes": sum(work.sent_bytes for work in works),
        "tasks": sum(work.tasks for work in works),
    }


_HEADER = [
    "layer",
    "op",
    "shape",
    "split",
    "tiles",
    "tile KiB",
    "VTCM KiB",
    "DDR KiB",
    "sent KiB",
    "MACs",
    "HMX MACs",
    "why",
]


def text(program: Program) -> str:
    """One line a layer, and the sums below."""
    works = layer_works(program)
    total = _total(works)
    ddr = sum(work.ddr_bytes for work in works)
    macs = [f"{total['macs']:,}", f"{total['hmx_macs']:,}"]
    last = ["total", *[""] * 6, _kib(ddr), _kib(total["sent_bytes"]), *macs, ""]
    return grid([_HEADER, *(_cells(work) for work in works), last], left=(0, 1, 2, 3, 11))


def _cells(work: LayerWork) -> list[str]:
    layer = work.layer
    shape = "x".join(str(extent) for extent in layer.output_shape) or "scalar"
    return [
        layer.name,
        layer.op,
        shape if prod(layer.output_shape) else f"{shape} (empty)",
        layer.split,
        str(layer.tiles),
        _kib(layer.tile_bytes),
        _kib(layer.vtcm_bytes),
        _kib(work.ddr_bytes),
        _kib(work.sent_bytes),
        f"{layer.macs:,}",
        f"{work.hmx_macs:,}",
        layer.why,
    ]


def _kib(size_bytes: int) -> str:
    """Rounded up, so that what is there never reads as nothing."""
    return f"{-(-size_bytes // _KIB):,}"
