"""Model file in, program out: import, passes, plan, memory, tasks."""

from __future__ import annotations

import gc
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compiler import qpc
from compiler.errors import OptionError, QpcError
from compiler.frontend import OnnxModel, batch_symbol_of, bind, load_model
from compiler.frontend.model import prepared as prepared_model
from compiler.frontend.symbols import batch_is_open
from compiler.ir.dtypes import DType
from compiler.ir.graph import Graph
from compiler.options import CompileOptions, violations
from compiler.passes.mxfp6 import Mxfp6
from compiler.passes.pipeline import optimize
from compiler.program import Program
from compiler.schedule.schedule import Prepared, prepare, schedule
from compiler.target import DeviceSpec
from compiler.version import compiler_version

_GRAPHS_KEPT = 16
"""assumed: bound graphs held in memory; a study alternates between fewer batch sizes."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An input as the model declares it: each dim is an extent, a symbol, or `None` if open.

    `dims` is `None` where not even the rank is known.
    """

    name: str
    dtype: DType
    dims: tuple[int | str | None, ...] | None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What must be known of a model before it is compiled.

    `batch_symbol` is the symbolic dimension that takes the batch size, `None` where the model's
    batch is fixed. `symbols` are the others, which need a value each. `batch_is_open`: no input
    declares its first dim, which then is the batch of each. `notes` are sentences for the user:
    what was put right in the file.
    """

    sha256: str
    name: str
    symbols: tuple[str, ...]
    batch_symbol: str | None
    inputs: tuple[ModelInput, ...] = ()
    batch_is_open: bool = False
    notes: tuple[str, ...] = ()


def describe(path: Path, batch_symbol: str | None = None) -> ModelFacts:
    """The facts of the model at `path`; `batch_symbol` names the batch where it is not found."""
    return _facts(load_model(path), batch_symbol)


def _facts(model: OnnxModel, batch_symbol: str | None) -> ModelFacts:
    found = batch_symbol_of(model, batch_symbol)
    others = tuple(symbol for symbol in model.symbols if symbol != found)
    declared = prepared_model(model).inputs
    inputs = tuple(ModelInput(item.name, item.dtype, item.dims) for item in declared)
    return ModelFacts(
        model.sha256,
        model.name,
        others,
        found,
        inputs,
        batch_is_open(declared),
        model.notes,
    )


class OnnxCompiler:
    """Compiles ONNX files; programs are kept by content in `cache_dir` if one is given.

    Holds the last model and its bound graphs, because a study compiles one model many times.
    """

    def __init__(self, cache_dir: Path | None = None, batch_symbol: str | None = None) -> None:
        self._cache_dir = cache_dir
        self._batch_symbol = batch_symbol
        self._models: dict[tuple[str, int, int], OnnxModel] = {}
        self._bound: OrderedDict[tuple[object, ...], tuple[Graph, Prepared]] = OrderedDict()

    @property
    def version(self) -> str:
        """Release and source digest."""
        return compiler_version()

    def compile(self, model: Path, options: CompileOptions, device: DeviceSpec) -> Program:
        """The program of `model`, from the cache where it has been compiled before."""
        found = violations(options, device)
        if found:
            raise OptionError("; ".join(found))
        loaded = self._model(model)
        folder = self._folder(loaded, options, device)
        cached = _cached(folder)
        if cached is not None:
            return cached
        with _uncollected():
            program = self._compile(loaded, options, device)
        if folder is not None:
            qpc.write(program, folder)
        return program

    def describe(self, model: Path) -> ModelFacts:
        """The facts of a model; the compilation that follows reads no file again."""
        return _facts(self._model(model), self._batch_symbol)

    def graph(self, model: Path, options: CompileOptions) -> Graph:
        """The bound, optimised graph that `compile` schedules for these options."""
        return self._prepared(self._model(model), options)[0]

    def _model(self, path: Path) -> OnnxModel:
        try:
            status = path.stat()
        except OSError:
            return load_model(path)
        key = (str(path.resolve()), status.st_mtime_ns, status.st_size)
        if key not in self._models:
            with _uncollected():
                self._models = {key: load_model(path)}
        return self._models[key]

    def _folder(
        self, model: OnnxModel, options: CompileOptions, device: DeviceSpec
    ) -> Path | None:
        if self._cache_dir is None:
            return None
        text = json.dumps(
            [model.sha256, repr(options), self._batch_symbol, device.sku.value, self.version]
        )
        return self._cache_dir / hashlib.sha256(text.encode()).hexdigest()[:32]

    def _compile(self, model: OnnxModel, options: CompileOptions, device: DeviceSpec) -> Program:
        return schedule(self._prepared(model, options)[1], options, device, model.sha256)

    def _prepared(self, model: OnnxModel, options: CompileOptions) -> tuple[Graph, Prepared]:
        key = (
            model.sha256,
            options.batch_size,
            options.symbols,
            options.input_shapes,
            options.mxfp6_matmul,
        )
        if key in self._bound:
            self._bound.move_to_end(key)
            return self._bound[key]
        graph = optimize(
            bind(
                model,
                batch_size=options.batch_size,
                symbols=options.symbols,
                batch_symbol=self._batch_symbol,
                input_shapes=options.input_shapes,
            )
        )
        if options.mxfp6_matmul:
            graph = Mxfp6().run(graph).graph
        self._bound[key] = (graph, prepare(graph))
        if len(self._bound) > _GRAPHS_KEPT:
            self._bound.popitem(last=False)
        return self._bound[key]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles.

    A compilation makes hundreds of thousands of objects; most of them stay, hardly any is in a
    cycle. Going through them again and again took up to a fifth of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _cached(folder: Path | None) -> Program | None:
    """The cached program; a damaged entry counts as absent and is written anew."""
    if folder is None or not (folder / qpc.FILE_NAME).exists():
        return None
    try:
        return qpc.read(folder)
    except QpcError:
        return None
