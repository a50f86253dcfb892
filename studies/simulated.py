"""One configuration of a shipped model, compiled and simulated: what the studies share."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from compiler.driver import OnnxCompiler
from compiler.options import CompileOptions
from compiler.program import Program
from compiler.target import Sku, device
from runtime_sim.measurement import Measurement
from runtime_sim.options import RunOptions
from runtime_sim.simulator import SimulatorBackend

MODELS = Path(__file__).parent / "models"
DATA = Path(__file__).parent / "data"

SYMBOLS = {"bert_base_qa": (("seq_len", 128),)}
"""Values of the models' symbols other than the batch."""


@lru_cache(maxsize=1)
def compiler() -> OnnxCompiler:
    """A compiler without a cache on disk: studies measure this source."""
    return OnnxCompiler()


@lru_cache(maxsize=len(Sku))
def backend(sku: Sku) -> SimulatorBackend:
    """The simulator of one card, with the calibrated timing."""
    return SimulatorBackend(device(sku))


def compiled(model: str, sku: Sku, knobs: CompileOptions) -> Program:
    """The program of a shipped model, by its file's stem."""
    return compiler().compile(MODELS / f"{model}.onnx", knobs, device(sku))


def options(
    model: str,
    cores: int,
    batch_size: int,
    ols: int | None = None,
    mos: int | None = None,
) -> CompileOptions:
    """Compile options with the model's symbols."""
    return CompileOptions(
        num_cores=cores,
        batch_size=batch_size,
        ols=ols,
        mos=mos,
        symbols=SYMBOLS.get(model, ()),
    )


def measure(program: Program, instances: int, set_size: int) -> Measurement:
    """Run a program on the card that it was compiled for."""
    return backend(program.sku).run(program, RunOptions(instances=instances, set_size=set_size))
