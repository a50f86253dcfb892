"""What a user chooses about a compilation, and whether a device allows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from compiler.target import DeviceSpec


class Precision(Enum):
    """How floating-point arithmetic runs on the device."""

    FP16 = "fp16"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """The compile-time knobs; `None` means unset: the compiler chooses.

    `num_cores`: NSPs of one instance. `batch_size`: samples of one inference. `ols`: overlap
    split, how many more pieces each operation is split into so that engines overlap. `mos`:
    over how many cores an operation's output channels (and weights) are split.
    `multicast_weights`: weights are read from DDR once per instance and sent to its other cores.
    `symbols`: (name, extent) of the model's symbolic dimensions, sorted by name, without the
    batch symbol.
    """

    num_cores: int
    batch_size: int = 1
    ols: int | None = None
    mos: int | None = None
    multicast_weights: bool = True
    precision: Precision = Precision.FP16
    symbols: tuple[tuple[str, int], ...] = ()


def violations(options: CompileOptions, device: DeviceSpec) -> tuple[str, ...]:
    """Why `options` cannot be compiled for `device`; empty when they can."""
    found = []
    if options.num_cores < 1:
        found.append(f"cores is {options.num_cores}, must be 1 or more")
    if options.num_cores > device.nsps:
        found.append(
            f"cores is {options.num_cores}, {device.sku.value} has {device.nsps} NSPs; lower cores"
        )
    if options.batch_size < 1:
        found.append(f"batch size is {options.batch_size}, must be 1 or more")
    if options.ols is not None and options.ols < 1:
        found.append(f"ols is {options.ols}, must be 1 or more")
    if options.mos is not None and not 1 <= options.mos <= options.num_cores:
        found.append(f"mos is {options.mos}, must be between 1 and cores ({options.num_cores})")
    return tuple(found)
