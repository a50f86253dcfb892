"""What compiling costs and gives, over many models: `python -m studies.zoo [--models DIR]`.

A row for each model, number of cores and batch size: the time of the compilation (of the process,
import and folding included where they were not done before), tasks, bytes to and from DDR, what of
them was spilled for want of VTCM, and a lower bound of the cycles that HMX needs on its fullest
core at its peak. Models with symbols other than the batch get values by --symbol.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.driver import OnnxCompiler
from compiler.errors import CompileError
from compiler.options import CompileOptions
from compiler.program import Program, TaskKind
from compiler.target import DeviceSpec, Sku, device

MODELS = Path(__file__).parent / "models"
BLOCK = 32
"""Rows, inputs and outputs of an HMX block (qemu-hmx)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One compilation; `refused` is the reason where there is no program."""

    model: str
    cores: int
    batch_size: int
    compile_s: float
    tasks: int
    ddr_bytes: int
    spill_bytes: int
    hmx_cycles: int
    refused: str = ""


def compiled(compiler: OnnxCompiler, path: Path, options: CompileOptions, spec: DeviceSpec) -> Row:
    """Compile one point and count."""
    known = set(compiler.describe(path).symbols)
    bound = tuple((name, extent) for name, extent in options.symbols if name in known)
    asked = CompileOptions(
        num_cores=options.num_cores, batch_size=options.batch_size, symbols=bound
    )
    began = time.process_time()
    point = (path.stem, asked.num_cores, asked.batch_size)
    try:
        program = compiler.compile(path, asked, spec)
    except CompileError as error:
        return Row(*point, time.process_time() - began, 0, 0, 0, 0, str(error))
    seconds = time.process_time() - began
    spilled = sum(layer.spill_bytes for layer in program.layers)
    moved = ddr_bytes(program)
    return Row(*point, seconds, len(program.tasks), moved, spilled, hmx_cycles(program, spec))


def ddr_bytes(program: Program) -> int:
    """Bytes that one inference of one instance reads and writes."""
    tasks = program.tasks
    return int(tasks.w0[np.isin(tasks.kind, (TaskKind.READ, TaskKind.WRITE))].sum())


def hmx_cycles(program: Program, spec: DeviceSpec) -> int:
    """Cycles of the fullest core's products at HMX's peak, in whole blocks."""
    tasks = program.tasks
    blocks = -(-tasks.w0 // BLOCK) * -(-tasks.w1 // BLOCK) * -(-tasks.w2 // BLOCK) * tasks.w3
    rates = {
        TaskKind.MATMUL: spec.hmx_fp16_macs_per_cycle,
        TaskKind.MATMUL_INT8: spec.hmx_int8_macs_per_cycle,
    }
    cycles = np.zeros(len(tasks), np.int64)
    for kind, macs_per_cycle in rates.items():
        cycles += np.where(tasks.kind == kind, blocks * BLOCK**3 // macs_per_cycle, 0)
    return int(np.bincount(tasks.core, weights=cycles).max())


def rows_of(
    paths: Sequence[Path],
    cores: Sequence[int],
    batches: Sequence[int],
    symbols: tuple[tuple[str, int], ...],
) -> list[Row]:
    """All combinations, model by model."""
    spec = device(Sku.STD)
    found = []
    for path in paths:
        compiler = OnnxCompiler()
        for batch in batches:
            for number in cores:
                options = CompileOptions(num_cores=number, batch_size=batch, symbols=symbols)
                found.append(compiled(compiler, path, options, spec))
    return found


def text(row: Row) -> str:
    """A line of the table."""
    head = f"{row.model:36} {row.cores:5} {row.batch_size:5} {row.compile_s:9.2f}"
    if row.refused:
        return f"{head} refused: {row.refused}"
    return (
        f"{head} {row.tasks:9,} {row.ddr_bytes / 1e6:10,.1f} {row.spill_bytes / 1e6:10,.1f} "
        f"{row.hmx_cycles:14,}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where a model was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--cores", default="1,2,7,14")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--symbol", action="append", metavar="NAME=INT")
    asked = parser.parse_args(arguments)
    texts = asked.symbol or ["seq_len=128", "past_len=127"]
    symbols = tuple(sorted((t.partition("=")[0], int(t.partition("=")[2])) for t in texts))
    cores = [int(part) for part in asked.cores.split(",")]
    batches = [int(part) for part in asked.batch.split(",")]
    paths = [asked.models] if asked.models.is_file() else sorted(asked.models.glob("*.onnx"))
    rows = []
    print(
        f"{'model':36} {'cores':>5} {'batch':>5} {'compile s':>9} {'tasks':>9} {'DDR MB':>10} "
        f"{'spill MB':>10} {'HMX cycles':>14}"
    )
    for path in paths:
        for row in rows_of([path], cores, batches, symbols):
            rows.append(row)
            print(text(row), flush=True)
    done = [row for row in rows if not row.refused]
    slowest = max(done, key=lambda row: row.compile_s, default=None)
    print(f"\n{len(done)} of {len(rows)} compile")
    if slowest is not None:
        point = f"{slowest.cores} cores, batch {slowest.batch_size}"
        print(f"slowest: {slowest.model} at {point}, {slowest.compile_s:.2f} s")
    return int(len(done) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
