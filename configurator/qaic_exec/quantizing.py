"""`-convert-to-quantize`: the inputs are profiled and the network is quantised, in one go."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from configurator.errors import UsageError
from configurator.int8 import Method, Settings
from configurator.vendor_cli.line import CommandLine

_METHODS = {
    "None": Method.MINMAX,
    "KLMinimization": Method.ENTROPY,
    "KLMinimizationV2": Method.ENTROPY,
    "Percentile": Method.PERCENTILE,
}
"""The library's methods that do what the vendor's names say; the entropy one minimises the
Kullback-Leibler divergence."""

# `FP16NodeInstanceNames: [a, b]`, or the names below it, each behind a dash.
_KEY = re.compile(r"^\s*FP(?:16|32)\w*\s*:\s*(?P<rest>.*)$", re.IGNORECASE)
_ITEM = re.compile(r"^\s*-\s+(?P<name>\S.*?)\s*$")


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the network is to be quantised.

    `input_list` names raw files, a line for each sample. `kept` are nodes or operators that stay
    in fp16. `warnings` say what is done otherwise than asked.
    """

    input_list: Path
    settings: Settings
    kept: tuple[str, ...]
    warnings: tuple[str, ...]


def quantization_of(given: CommandLine) -> Quantization | None:
    """What the options ask for; `None` where the network is to stay as it is."""
    if not given.has("-convert-to-quantize"):
        return None
    listed = given.text("-input-list-file")
    if listed is None:
        raise UsageError(
            "-convert-to-quantize: no inputs to profile; give raw files by -input-list-file=FILE"
        )
    named = given.text("-quantization-calibration") or "None"
    warnings = () if named in _METHODS else (f"{named} calibration is not known: min-max is used",)
    percentile = float(given.text("-percentile-calibration-value") or 100)
    settings = Settings(
        method=_METHODS.get(named, Method.MINMAX),
        percentile=percentile,
        per_channel=True if given.has("-enable-channelwise") else None,
    )
    return Quantization(Path(listed), settings, _kept(given), warnings)


def _kept(given: CommandLine) -> tuple[str, ...]:
    flags = ("-execute-nodes-in-fp16", "-keep-original-precision-for-nodes")
    texts = [text for flag in flags for text in given.texts(flag)]
    names = [name.strip() for text in texts for name in text.split(",")]
    info = given.text("-node-precision-info")
    return (*filter(None, names), *(() if info is None else node_names(Path(info))))


def node_names(path: Path) -> tuple[str, ...]:
    """The nodes that a precision file keeps in fp16 or fp32; raises `UsageError` if none can."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"-node-precision-info={path}: cannot be read: {error}") from error
    found, inside, known = list[str](), False, False
    for line in lines:
        key, item = _KEY.match(line), _ITEM.match(line)
        if key is not None:
            inside = known = True
            found += _listed(key["rest"].strip().strip("[]").split(","))
        elif item is not None and inside:
            found += _listed([item["name"]])
        elif line.strip() and not line.lstrip().startswith("#"):
            inside = False
    if not known:
        raise UsageError(
            f"-node-precision-info={path}: names no nodes; write "
            "FP16NodeInstanceNames: [NODE, ...]"
        )
    return tuple(found)


def _listed(texts: Iterable[str]) -> list[str]:
    names = (text.strip().strip("'\"") for text in texts)
    return [name for name in names if name and not name.startswith("#")]


def quantised(
    quantization: Quantization, model: Path, folder: Path, symbols: tuple[tuple[str, int], ...]
) -> tuple[Path, tuple[str, ...]]:
    """The quantised network in `folder`, and warnings."""
    from configurator.quantize import quantize, told_apart

    nodes, operators, unknown = told_apart(model, quantization.kept)
    settings = replace(quantization.settings, exclude_nodes=nodes, exclude_ops=operators)
    out = folder / model.name
    made = quantize(model, quantization.input_list, out, settings, dict(symbols))
    warnings = [f"{name}: the network has no such node or operator" for name in unknown]
    return made.path, (*quantization.warnings, *warnings)
