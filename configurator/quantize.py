"""A float model and samples of its inputs to a model that runs in int8.

The arithmetic is onnxruntime's: its calibration finds the ranges, its quantiser writes pairs of
QuantizeLinear and DequantizeLinear around what the tensor unit multiplies.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from compiler.driver import describe
from compiler.errors import CompileError
from compiler.frontend import load_model
from compiler.frontend.biases import flatten_biases
from compiler.frontend.calls import Call
from compiler.frontend.model import prepared as prepared_model
from configurator.calibration import Calibration, calibration_of
from configurator.errors import ConfiguratorError, ToolError, UsageError
from configurator.int8 import Method, Settings

_LARGEST_FILE_BYTES = 1 << 30
"""assumed: half of protobuf's 2 GB; a larger model is written with its weights beside it."""

_PER_CHANNEL_OPSET = 13
"""Since this opset, QuantizeLinear has an axis (ONNX changelog)."""

_WARNING, _FATAL = 2, 4
"""Severities of onnxruntime's log; the first is its default (onnxruntime, OrtLoggingLevel)."""

_PRODUCTS = ("Conv", "MatMul", "Gemm")
# onnxruntime quantises around these where what they move is quantised already.
_MOVES = ("MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Concat", "Split")


_CALIBRATIONS = {
    Method.MINMAX: "MinMax",
    Method.ENTROPY: "Entropy",
    Method.PERCENTILE: "Percentile",
}


@dataclass(frozen=True, slots=True)
class Quantised:
    """What was made: the file, and how many products it has and how many of them are in int8."""

    path: Path
    samples: int
    products: int
    quantised: int


def quantize(
    model: Path,
    calibration: Path,
    out: Path,
    settings: Settings,
    symbols: Mapping[str, int] | None = None,
) -> Quantised:
    """Write the quantised model to `out`; the same inputs give the same bytes.

    `calibration` is a folder of samples, or a text file that lists their files. `symbols` gives
    extents of symbolic dims, for samples in files without a shape. Raises
    `UsageError` where a sample does not fit the model, a name is not in it, or onnxruntime is
    not installed.
    """
    library = _library()
    facts = describe(model)
    found = calibration_of(calibration, facts.inputs, symbols or {})
    if out.resolve() == model.resolve():
        raise UsageError(f"{out}: is the model itself; name another file")
    settings = _decided(model, settings)
    with tempfile.TemporaryDirectory() as folder, _quiet(library):
        prepared = Path(folder) / "prepared.onnx"
        made = Path(folder) / "out" / out.name
        made.parent.mkdir()
        _prepare(model, prepared, merges=True)
        excluded = _excluded(model, prepared, settings)
        if excluded is None:
            _prepare(model, prepared, merges=False)
            excluded = settings.exclude_nodes
        _run(library, prepared, made, found, replace(settings, exclude_nodes=excluded))
        products = _products(made)
        out.parent.mkdir(parents=True, exist_ok=True)
        for file in made.parent.iterdir():
            (out.parent / file.name).write_bytes(file.read_bytes())
    return Quantised(out, len(found.samples), *products)


def quantized_once(
    model: Path,
    calibration: Path,
    folder: Path,
    settings: Settings,
    symbols: Mapping[str, int] | None = None,
) -> Path:
    """The quantised model in a folder, made where the same one has not been made before."""
    facts = describe(model)
    found = calibration_of(calibration, facts.inputs, symbols or {})
    version = _library().__version__
    parts = [
        facts.sha256,
        found.digest(),
        repr(settings),
        sorted((symbols or {}).items()),
        version,
    ]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    path = folder / "quantized" / key / model.with_suffix(".onnx").name
    if not path.exists():
        quantize(model, calibration, path, settings, symbols)
    return path


def _library() -> ModuleType:
    try:
        import onnxruntime
        import onnxruntime.quantization
    except ImportError as error:
        raise UsageError(
            "quantisation needs onnxruntime, which is not installed; "
            "install the extra: pip install 'aic-configurator[quantize]'"
        ) from error
    found: ModuleType = onnxruntime
    return found


def _decided(model: Path, settings: Settings) -> Settings:
    """The settings with `per_channel` said."""
    opset = dict(load_model(model).opsets).get("", 1)
    if settings.per_channel and opset < _PER_CHANNEL_OPSET:
        raise UsageError(
            f"{model}: has opset {opset}, scales by channel need {_PER_CHANNEL_OPSET}; leave out "
            "--per-channel, or convert it with onnx.version_converter"
        )
    allowed = opset >= _PER_CHANNEL_OPSET
    given = settings.per_channel
    return replace(settings, per_channel=allowed if given is None else given)


@contextmanager
def _quiet(library: ModuleType) -> Iterator[None]:
    """Without what the library prints and its advice, which is followed here."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    library.set_default_logger_severity(_FATAL)
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        library.set_default_logger_severity(_WARNING)
        logging.disable(before)


def _prepare(model: Path, prepared: Path, *, merges: bool) -> None:
    """Shapes inferred, biases flat and, with `merges`, batch normalisations in the weights.

    The quantiser wants all of it.
    """
    from onnxruntime.quantization import quant_pre_process

    large = _size_bytes(model) > _LARGEST_FILE_BYTES
    with _told(f"{model}: onnxruntime cannot prepare it"):
        quant_pre_process(
            str(model),
            str(prepared),
            skip_optimization=not merges,
            skip_symbolic_shape=True,
            save_as_external_data=large,
            all_tensors_to_one_file=large,
        )
    flatten_biases(prepared)


def _run(
    library: ModuleType, prepared: Path, made: Path, found: Calibration, settings: Settings
) -> None:
    quantization = library.quantization
    operators = [op for op in (*_PRODUCTS, *_MOVES) if op not in settings.exclude_ops]
    extra: dict[str, Any] = {
        # A product's own result stays a sum until the next product wants it in 8 bits.
        "OpTypesToExcludeOutputQuantization": [op for op in operators if op in _PRODUCTS],
    }
    if settings.method is Method.PERCENTILE:
        extra["CalibPercentile"] = settings.percentile
    with _told("onnxruntime cannot quantise the model"):
        quantization.quantize_static(
            str(prepared),
            str(made),
            _reader(quantization, found),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=operators,
            per_channel=bool(settings.per_channel),
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_exclude=list(settings.exclude_nodes),
            use_external_data_format=_size_bytes(prepared) > _LARGEST_FILE_BYTES,
            calibrate_method=getattr(
                quantization.CalibrationMethod, _CALIBRATIONS[settings.method]
            ),
            extra_options=extra,
        )


def _reader(quantization: ModuleType, found: Calibration) -> object:
    """The samples as the library asks for them."""

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc,name-defined]
        """Gives one sample after the other."""

        def __init__(self) -> None:
            self._samples = found.arrays()

        def get_next(self) -> dict[str, Any] | None:
            """The next sample, `None` behind the last."""
            return next(self._samples, None)

    return Reader()


@contextmanager
def _told(what: str) -> Iterator[None]:
    """One line for what the library raises, which can be anything where a model is beyond it."""
    try:
        yield
    except (ConfiguratorError, CompileError, OSError, MemoryError):
        raise
    except Exception as error:
        raise ToolError(
            f"{what}: {_line(error)}; keep what it stumbles over in fp16, by --exclude-node or "
            "--exclude-op"
        ) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _size_bytes(model: Path) -> int:
    """Of the file and those beside it that hold its weights."""
    beside = [file for file in model.parent.glob(f"{model.name}*") if file.is_file()]
    return sum(file.stat().st_size for file in {model, *beside})


def _calls(path: Path) -> tuple[Call, ...]:
    """The nodes of a file that are not folded."""
    return prepared_model(load_model(path)).calls


def _excluded(model: Path, prepared: Path, settings: Settings) -> tuple[str, ...] | None:
    """The names of excluded nodes in the prepared model; `None` where one got lost in it.

    A node that onnxruntime merged into another leaves its name at the head of the other's.
    """
    calls = _calls(model)
    known, operators = {call.name for call in calls}, {call.op for call in calls}
    for name in settings.exclude_nodes:
        if name not in known:
            raise UsageError(f"--exclude-node {name}: {model} has no such node")
    for op in settings.exclude_ops:
        if op not in operators:
            raise UsageError(f"--exclude-op {op}: {model} has no such operator")
    found = []
    for name in settings.exclude_nodes:
        own = [
            call.name
            for call in _calls(prepared)
            if call.name == name or (call.name.startswith(f"{name}/") and call.name not in known)
        ]
        if not own:
            return None
        found += own
    return tuple(found)


def told_apart(
    model: Path, names: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Names of nodes, names of operators, and those that are neither in the model."""
    calls = _calls(model)
    nodes, operators = {call.name for call in calls}, {call.op for call in calls}
    distinct = tuple(dict.fromkeys(names))
    return (
        tuple(name for name in distinct if name in nodes),
        tuple(name for name in distinct if name in operators - nodes),
        tuple(name for name in distinct if name not in nodes | operators),
    )


def _products(made: Path) -> tuple[int, int]:
    """How many products a file has, and how many with both operands in 8 bits."""
    calls = _calls(made)
    dequantised = {
        name for call in calls if call.op == "DequantizeLinear" for name in call.outputs
    }
    products = [call for call in calls if call.op in _PRODUCTS]
    return len(products), sum(dequantised.issuperset(call.inputs[:2]) for call in products)
