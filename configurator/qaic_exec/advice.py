"""What `-aic-perf-warnings` says: what in a program costs performance, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from compiler.program import Program, TaskKind
from configurator.explain import LayerWork, layer_works

# One HMX block, v68: 32 x 32 in fp16, 64 rows of 8-bit operands (qemu-hmx in compiler.target).
_BLOCK = 32
_ROWS = {TaskKind.MATMUL: 32, TaskKind.MATMUL_INT8: 64}

# assumed: below half, the padding costs more than the product.
_LOW_FILL = 0.5

_MIB = 1 << 20


def warnings(program: Program) -> Iterator[str]:
    """One sentence each: first what holds for the whole program, then layer by layer."""
    works = layer_works(program)
    yield from _weights(program, works)
    fills = hmx_fill(program)
    for work, fill in zip(works, fills, strict=True):
        yield from _layer(program, work, fill)


def _weights(program: Program, works: tuple[LayerWork, ...]) -> Iterator[str]:
    read = sum(work.read_constant_bytes for work in works)
    held = sum(work.layer.weight_bytes for work in works if work.read_constant_bytes)
    if dict(program.chosen).get("weights") != "streamed" or not read:
        return
    yield (
        f"weights do not stay in VTCM: {read / _MIB:.2f} MiB of constants come from DDR with each "
        "inference; more cores or a higher -mos leave more room"
    )
    if read > held > 0 and not program.options.multicast_weights:
        yield (
            f"{held / _MIB:.2f} MiB of weights are read {read / held:.1f} times; "
            "-multicast-weights reads them once"
        )


def _layer(program: Program, work: LayerWork, fill: float | None) -> Iterator[str]:
    layer, cores = work.layer, program.options.num_cores
    if layer.spill_bytes:
        yield (
            f"{_named(work)}: {layer.spill_bytes / _MIB:.2f} MiB of activations move to or from "
            "DDR for want of VTCM; more cores or a smaller batch leave more room"
        )
    if fill is not None and fill < _LOW_FILL:
        yield f"{_named(work)}: HMX blocks are {fill:.0%} full, the rest is padding"
    if work.layer.macs and work.cores < cores:
        yield f"{_named(work)}: runs on {work.cores} of {cores} cores ({layer.split})"


def _named(work: LayerWork) -> str:
    return f"{work.layer.name} ({work.layer.op})"


def hmx_fill(program: Program) -> tuple[float | None, ...]:
    """By layer: products that the model asks for over those that whole blocks make.

    `None` for a layer that runs on no tensor unit.
    """
    made = np.zeros(len(program.layers))
    for kind, rows in _ROWS.items():
        chosen = program.tasks.kind == kind
        np.add.at(made, program.tasks.layer[chosen], _block_products(program, rows)[chosen])
    pairs = zip(program.layers, made.tolist(), strict=True)
    return tuple(layer.macs / products if products else None for layer, products in pairs)


def _block_products(program: Program, rows: int) -> NDArray[np.float64]:
    tasks = program.tasks
    whole = _up(tasks.w0, rows) * _up(tasks.w1, _BLOCK) * _up(tasks.w2, _BLOCK) * tasks.w3
    return whole.astype(np.float64)


def _up(extents: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    return -(-extents // block) * block
