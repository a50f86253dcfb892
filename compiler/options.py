"""What a user chooses about a compilation, and whether a device allows it."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from enum import Enum

from compiler.target import DeviceSpec


class Precision(Enum):
    """How floating-point arithmetic runs on the device.

    Operators that the model itself quantises (QDQ pairs, QLinear operators) run in int8 under
    either. INT8 also quantises the others, by the value ranges of a calibration.
    """

    FP16 = "fp16"
    INT8 = "int8"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """The compile-time knobs; `None` means unset: the compiler chooses.

    `num_cores`: NSPs of one instance. `batch_size`: samples of one inference. `ols`: overlap
    split, how many more pieces each operation is split into so that engines overlap. `mos`:
    over how many cores an operation's output channels (and weights) are split at most.
    `multicast_weights`: weights are read from DDR once per instance and sent to its other cores.
    `symbols`: (name, extent) of the model's symbolic dimensions, sorted by name, without the
    batch symbol. `input_shapes`: (input, shape) for inputs whose dims the model does not name,
    sorted by input; the leading extent is that of one sample.

    `depth_first`: run chains of operations tile by tile through VTCM; `depth_first_mem_mib`: the
    VTCM and on-chip room over all cores that one such chain may fill (8 to 32).
    `size_split_granularity_kib`: largest tile of an operation that does not fit (512 to 2048).
    `vtcm_working_set_limit_ratio`: share of VTCM that one operation may use (above 0, up to 1).
    `allocator_dealloc_delay`: operations for which a buffer stays reserved after its last use, so
    that fewer operations wait for its room (0 to 10). `combine_inputs`, `combine_outputs`: the
    host moves all inputs (outputs) in one transfer. `sdp_cluster_sizes`: the cores in clusters
    that form a pipeline, each with its part of the layers; `cluster_mos` gives each its mos.
    `mxfp6_matmul`: constant matrix operands are kept in DDR in 6-bit blocks of 32 with one scale.
    """

    num_cores: int
    batch_size: int = 1
    ols: int | None = None
    mos: int | None = None
    multicast_weights: bool = True
    precision: Precision = Precision.FP16
    symbols: tuple[tuple[str, int], ...] = ()
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    depth_first: bool | None = None
    depth_first_mem_mib: int | None = None
    size_split_granularity_kib: int | None = None
    vtcm_working_set_limit_ratio: float | None = None
    allocator_dealloc_delay: int | None = None
    combine_inputs: bool | None = None
    combine_outputs: bool | None = None
    sdp_cluster_sizes: tuple[int, ...] = ()
    cluster_mos: tuple[int, ...] = ()
    mxfp6_matmul: bool = False


@dataclass(frozen=True, slots=True)
class _Range:
    """A knob's valid range, as the vendor's documentation of the flag states it."""

    field: str
    name: str
    least: float
    most: float


_RANGES = (
    _Range("depth_first_mem_mib", "depth-first memory (MiB)", 8, 32),
    _Range("size_split_granularity_kib", "size-split granularity (KiB)", 512, 2048),
    _Range("allocator_dealloc_delay", "allocator dealloc delay", 0, 10),
)


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
    return (*found, *_out_of_range(options), *_clusters(options))


def with_mos_in_reach(options: CompileOptions) -> CompileOptions:
    """`options` with every mos, a split's upper limit, lowered to the cores that are there.

    The vendor's compiler takes a higher one: its published tables have runs of 1 core with mos 2,
    as fast as those with mos 1. The vendor's tuner proposes none.
    """
    sizes, mos = options.sdp_cluster_sizes, options.mos
    own = options.cluster_mos or (() if mos is None else (mos,) * len(sizes))
    if not sizes:
        return options if mos is None else replace(options, mos=min(mos, options.num_cores))
    if len(own) != len(sizes) or all(map(operator.le, own, sizes)):
        return options
    return replace(options, mos=None, cluster_mos=tuple(map(min, own, sizes)))


def _out_of_range(options: CompileOptions) -> list[str]:
    found = []
    for knob in _RANGES:
        value = getattr(options, knob.field)
        if value is not None and not knob.least <= value <= knob.most:
            found.append(f"{knob.name} is {value}, must be {knob.least} to {knob.most}")
    ratio = options.vtcm_working_set_limit_ratio
    if ratio is not None and not 0 < ratio <= 1:
        found.append(f"VTCM working-set limit ratio is {ratio}, must be above 0 and up to 1")
    if options.depth_first is False and options.depth_first_mem_mib is not None:
        found.append("depth-first memory is given, but depth-first is off; drop one of the two")
    return found


def _clusters(options: CompileOptions) -> list[str]:
    sizes, found = options.sdp_cluster_sizes, []
    if sizes and (min(sizes) < 1 or sum(sizes) != options.num_cores):
        found.append(f"cluster sizes {sizes} add up to {sum(sizes)}, cores is {options.num_cores}")
    if sizes and options.mos is not None and options.mos > min(sizes):
        found.append(f"mos is {options.mos}, the smallest cluster has {min(sizes)} cores")
    if options.cluster_mos and len(options.cluster_mos) != len(sizes):
        found.append(
            f"mos is given for {len(options.cluster_mos)} clusters, there are {len(sizes)}"
        )
    found += [
        f"mos of a cluster is {mos}, must be between 1 and its {size} cores"
        for mos, size in zip(options.cluster_mos, sizes, strict=False)
        if not 1 <= mos <= size
    ]
    return found
