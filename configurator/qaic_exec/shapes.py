"""The shapes that a command line asks for, given what the model declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.driver import ModelFacts, ModelInput
from compiler.ir.dtypes import DType
from compiler.options import CompileOptions
from configurator.errors import UsageError
from configurator.export import INPUT_TYPES
from configurator.qaic_exec.request import InputShape, Request
from configurator.specializations import Extents, merged, read_specializations

# How else scripts for the real tool, numpy and C write the element types of inputs.
_ALIASES = {
    DType.FLOAT32: "float32 fp32 FloatTy",
    DType.FLOAT16: "fp16 half Float16Ty",
    DType.FLOAT64: "float64",
    DType.INT8: "i8 int8_t",
    DType.UINT8: "ui8 uint8_t",
    DType.INT16: "i16 int16_t",
    DType.INT32: "i32 int32_t int Int32ITy",
    DType.INT64: "i64 int64_t index64 Int64ITy",
    DType.BOOL: "boolean BoolTy",
}
_TYPE_OF = {
    name: dtype
    for dtype, first in INPUT_TYPES.items()
    for name in (first, *_ALIASES[dtype].split())
}


@dataclass(frozen=True, slots=True)
class Shaped:
    """The options of each program that is to be compiled, and what a user should know of them."""

    options: tuple[CompileOptions, ...]
    warnings: tuple[str, ...]


def shaped(request: Request, facts: ModelFacts) -> Shaped:
    """One program a specialization, or one; raises `UsageError` where a shape stays open."""
    declared = {item.name: item for item in facts.inputs}
    for shape in request.input_shapes:
        _check_input(shape, declared)
    entries = _entries(request)
    options = tuple(_options(request, facts, dict(extents)) for extents in entries)
    return Shaped(options, tuple(dict.fromkeys(_unknown(facts, entries))))


def _entries(request: Request) -> tuple[Extents, ...]:
    path = request.specializations
    if path is None:
        return (request.symbols,)
    found = read_specializations(path, f"-network-specialization-config={path}")
    return tuple(merged(request.symbols, entry) for entry in found)


def _known(facts: ModelFacts) -> tuple[str, ...]:
    batch = () if facts.batch_symbol is None else (facts.batch_symbol,)
    return (*batch, *facts.symbols)


def _unknown(facts: ModelFacts, entries: tuple[Extents, ...]) -> Iterator[str]:
    known = _known(facts)
    for name, extent in (pair for extents in entries for pair in extents):
        if name not in known:
            listed = ", ".join(known) or "none"
            yield f"symbol {name},{extent}: the model has no such symbol; it has {listed}"


def _options(request: Request, facts: ModelFacts, extents: dict[str, int]) -> CompileOptions:
    batch_size = _batch_size(request, facts, extents)
    shapes = tuple(
        (shape.name, _filled(shape, declared, batch_size))
        for declared in sorted(facts.inputs, key=lambda item: item.name)
        for shape in request.input_shapes
        if shape.name == declared.name
    )
    _check_bound(facts, extents, dict(shapes))
    symbols = tuple((name, extents[name]) for name in facts.symbols if name in extents)
    return replace(request.options, batch_size=batch_size, symbols=symbols, input_shapes=shapes)


def _batch_size(request: Request, facts: ModelFacts, extents: dict[str, int]) -> int:
    """From the batch symbol, from `-batchsize`, or what the model's inputs start with."""
    if facts.batch_symbol is not None:
        return _batch_of_symbol(facts.batch_symbol, request, facts, extents)
    if request.batch_size is not None:
        return request.batch_size
    leading = {_first_extent(item, request, extents) for item in facts.inputs} - {None}
    return (leading.pop() or 1) if len(leading) == 1 else 1


def _batch_of_symbol(
    symbol: str, request: Request, facts: ModelFacts, extents: dict[str, int]
) -> int:
    asked = request.batch_size
    led = (item for item in facts.inputs if item.dims and item.dims[0] == symbol)
    given = {_first_extent(item, request, extents) for item in led} - {None}
    if len(given) > 1:
        raise UsageError(f"symbol {symbol} is given several extents: {sorted(map(str, given))}")
    if not given:
        refused = "" if asked is None else f"-batchsize={asked}: "
        raise UsageError(
            f"{refused}the batch of the model is the symbol {symbol}; "
            f"give -onnx-define-symbol={symbol},{asked or 1}"
        )
    if asked is not None and asked not in given:
        raise UsageError(
            f"-batchsize={asked}: the batch is the symbol {symbol}, which is {given.pop()}; "
            "leave -batchsize out"
        )
    return given.pop() or 1


def _first_extent(item: ModelInput, request: Request, extents: dict[str, int]) -> int | None:
    """What fixes the first extent of an input: an option, or the model; `None` if nothing."""
    first = item.dims[0] if item.dims else None
    if isinstance(first, str) and first in extents:
        return extents[first]
    for shape in request.input_shapes:
        if shape.name == item.name and shape.extents and shape.extents[0] is not None:
            return shape.extents[0]
    return first if isinstance(first, int) else None


def _check_input(shape: InputShape, declared: dict[str, ModelInput]) -> None:
    where = f"-model-input={shape.name}"
    if shape.name not in declared:
        raise UsageError(f"{where}: the model has no such input; it has {', '.join(declared)}")
    item = declared[shape.name]
    dtype = _TYPE_OF.get(shape.type)
    if dtype is None:
        raise UsageError(f"{where}: unknown type {shape.type}; known: {', '.join(_TYPE_OF)}")
    if dtype is not item.dtype:
        raise UsageError(f"{where}: type is {shape.type}, the model says {item.dtype.value}")
    _check_dims(where, shape, item)


def _check_dims(where: str, shape: InputShape, item: ModelInput) -> None:
    if item.dims is None:
        return
    if len(shape.extents) != len(item.dims):
        raise UsageError(
            f"{where}: has {len(shape.extents)} dims, the model declares {len(item.dims)}"
        )
    for at, (extent, dim) in enumerate(zip(shape.extents, item.dims, strict=True)):
        if isinstance(dim, int) and extent not in (None, dim):
            raise UsageError(f"{where}: dim {at} is {extent}, the model declares {dim}")


def _filled(shape: InputShape, declared: ModelInput, batch_size: int) -> tuple[int, ...]:
    """The extents with the batch, or what the model says, in the place of `*`."""
    first = declared.dims[0] if declared.dims else None
    open_ = first if isinstance(first, int) else batch_size
    return tuple(open_ if extent is None else extent for extent in shape.extents)


def _check_bound(
    facts: ModelFacts, extents: dict[str, int], shapes: dict[str, tuple[int, ...]]
) -> None:
    """Every symbol and every open dim must follow from an option."""
    for item in facts.inputs:
        if item.name in shapes:
            continue
        dims = item.dims
        if dims is None or None in dims:
            raise UsageError(
                f"input {item.name}: its shape is open; give "
                f"-model-input={item.name},{_type_name(item.dtype)},[DIMS]"
            )
        for dim in dims:
            if isinstance(dim, str) and dim != facts.batch_symbol and dim not in extents:
                _check_elsewhere(dim, facts, shapes)


def _check_elsewhere(symbol: str, facts: ModelFacts, shapes: dict[str, tuple[int, ...]]) -> None:
    """A symbol may also follow from the given shape of another input."""
    if not any(symbol in (item.dims or ()) for item in facts.inputs if item.name in shapes):
        raise UsageError(f"symbol {symbol} has no extent; give -onnx-define-symbol={symbol},N")


def _type_name(dtype: DType) -> str:
    return INPUT_TYPES.get(dtype, dtype.value)
