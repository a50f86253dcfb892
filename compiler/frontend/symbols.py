"""Inputs as a model declares them, and the extents that a user gives to their symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from onnx import TensorShapeProto, ValueInfoProto

from compiler.errors import OptionError, SymbolError, UnsupportedError
from compiler.frontend.tensors import check_size, dtype_of
from compiler.frontend.text import text
from compiler.ir.dtypes import DType
from compiler.ir.graph import TensorType

Dim = int | str | None

# How exporters write a dimension that they know nothing about: two of these may differ.
_NO_NAMES = frozenset({"", "?", "-1", "None", "none"})


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """A graph input: each dim is an extent, a symbol, or `None` when nothing is said.

    `dims` is `None` when not even the rank is known. `may_be_empty`: an extent is declared as 0,
    by which most exporters say that they do not know it, and a few that there is nothing.
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...] | None
    may_be_empty: bool = False

    @property
    def first_dim(self) -> Dim:
        """The first dim, `None` also for a scalar or an unknown rank."""
        return self.dims[0] if self.dims else None

    @property
    def is_scalar(self) -> bool:
        """Whether it has no dim at all."""
        return self.dims == ()


@dataclass(frozen=True, slots=True)
class Binding:
    """What a user asks for; see `compiler.frontend.bind`."""

    batch_size: int
    symbols: tuple[tuple[str, int], ...]
    batch_symbol: str | None
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...]


def declared_input(value: ValueInfoProto) -> DeclaredInput:
    """Read a graph input; raises `UnsupportedError` when it is no tensor."""
    text(value.name)
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise UnsupportedError(
            f"input '{value.name}' is no tensor ({kind or 'no type'}); cut the graph after "
            "the nodes that take it apart"
        )
    tensor = value.type.tensor_type
    dtype = dtype_of(tensor.elem_type, f"input '{value.name}'")
    dims = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    may_be_empty = any(dim.HasField("dim_value") and not dim.dim_value for dim in tensor.shape.dim)
    return DeclaredInput(value.name, dtype, dims, may_be_empty)


def declared_shapes(values: Iterable[ValueInfoProto]) -> dict[str, tuple[int, ...]]:
    """Those of the values that are tensors with every extent given, by name."""
    found = {}
    for value in values:
        shape = value.type.tensor_type.shape
        is_given = value.type.tensor_type.HasField("shape")
        if is_given and all(dim.HasField("dim_value") and dim.dim_value >= 0 for dim in shape.dim):
            found[text(value.name)] = tuple(dim.dim_value for dim in shape.dim)
    return found


def symbols_of(inputs: Iterable[DeclaredInput]) -> tuple[str, ...]:
    """Names of all symbols, sorted."""
    return tuple(
        sorted({dim for item in inputs for dim in item.dims or () if isinstance(dim, str)})
    )


def batch_symbol_candidates(inputs: Iterable[DeclaredInput]) -> tuple[str, ...]:
    """Symbols that are the first dim of an input, in the order of the inputs."""
    return tuple(dict.fromkeys(i.first_dim for i in inputs if isinstance(i.first_dim, str)))


def found_batch_symbol(candidates: tuple[str, ...]) -> str | None:
    """The one symbol that leads inputs; among several the only one called something with batch."""
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    named = [name for name in candidates if "batch" in name.lower()]
    return named[0] if len(named) == 1 else None


def batch_is_open(inputs: Iterable[DeclaredInput]) -> bool:
    """Whether no input declares its first dim, so that each of them starts with the batch."""
    return all(item.is_scalar or item.first_dim is None for item in inputs)


def bound_types(inputs: tuple[DeclaredInput, ...], binding: Binding) -> dict[str, TensorType]:
    """The concrete type of every input.

    A given input shape stands for what the input leaves open; the batch dim is always
    `binding.batch_size`, also where the given shape says another number. Raises `SymbolError`.
    """
    if binding.batch_size < 1:
        raise OptionError(f"batch size is {binding.batch_size}, must be 1 or more")
    given = _given_shapes(inputs, binding)
    extents = _extents(inputs, binding, given)
    is_open = batch_is_open(inputs)
    types = {}
    for item in inputs:
        shape = _shape(item, extents, given.get(item.name))
        if is_open and shape:
            shape = (binding.batch_size, *shape[1:])
        types[item.name] = TensorType(item.dtype, shape)
        check_size(types[item.name], f"input '{item.name}'")
    return types


def _dim(dim: TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value > 0 else None
    name = text(dim.dim_param).strip()
    return None if name in _NO_NAMES else name


def _given_shapes(
    inputs: tuple[DeclaredInput, ...], binding: Binding
) -> dict[str, tuple[int, ...]]:
    by_name = {item.name: item for item in inputs}
    for name, shape in binding.input_shapes:
        if name not in by_name:
            known = ", ".join(f"'{item}'" for item in by_name) or "none"
            raise SymbolError(f"--input-shape {name}: the model has no such input; it has {known}")
        _check_given(by_name[name], shape)
    return dict(binding.input_shapes)


def _check_given(item: DeclaredInput, shape: tuple[int, ...]) -> None:
    text = f"--input-shape {item.name}={_times(shape)}"
    least = 0 if item.may_be_empty else 1
    if any(extent < least for extent in shape):
        raise SymbolError(f"{text}: every extent must be {least} or more")
    if item.dims is None:
        return
    if len(shape) != len(item.dims):
        raise SymbolError(f"{text}: has {len(shape)} dims, the model declares {len(item.dims)}")
    for at, (extent, dim) in enumerate(zip(shape, item.dims, strict=True)):
        if isinstance(dim, int) and dim != extent:
            raise SymbolError(f"{text}: dim {at} is {extent}, the model declares {dim}")


def _extents(
    inputs: tuple[DeclaredInput, ...],
    binding: Binding,
    given: Mapping[str, tuple[int, ...]],
) -> dict[str, int]:
    """The extent of each symbol, from the options and from the given shapes."""
    extents: dict[str, int] = {}
    known = symbols_of(inputs)
    for name, extent in binding.symbols:
        if name not in known:
            raise SymbolError(
                f"--symbol {name}: the model has no such symbol; it has {_listed(known)}"
            )
        _bind(extents, name, extent, f"--symbol {name}={extent}")
    if binding.batch_symbol is not None:
        asked = extents.setdefault(binding.batch_symbol, binding.batch_size)
        if asked != binding.batch_size:
            raise SymbolError(
                f"--symbol {binding.batch_symbol}={asked}: this is the batch symbol and the "
                f"batch size is {binding.batch_size}; leave the symbol out"
            )
    for item in inputs:
        for dim, extent in zip(item.dims or (), given.get(item.name, ()), strict=False):
            if isinstance(dim, str) and dim != binding.batch_symbol:
                _bind(extents, dim, extent, f"--input-shape {item.name}: {dim}={extent}")
    return extents


def _bind(extents: dict[str, int], name: str, extent: int, where: str) -> None:
    if extent < 1:
        raise SymbolError(f"{where}: must be 1 or more")
    if extents.setdefault(name, extent) != extent:
        raise SymbolError(f"{where}: but {name} is also given as {extents[name]}; give it once")


def _shape(
    item: DeclaredInput, extents: Mapping[str, int], given: tuple[int, ...] | None
) -> tuple[int, ...]:
    if item.dims is None:
        if given is None:
            raise SymbolError(
                f"input '{item.name}' has no shape; give one, eg "
                f"--input-shape {item.name}=1x3x224x224"
            )
        return given
    return tuple(_extent(item, at, dim, extents, given) for at, dim in enumerate(item.dims))


def _extent(
    item: DeclaredInput,
    at: int,
    dim: Dim,
    extents: Mapping[str, int],
    given: tuple[int, ...] | None,
) -> int:
    if isinstance(dim, int):
        return dim
    if dim is None:
        if given is None:
            raise SymbolError(
                f"input '{item.name}': dim {at} has neither extent nor name; give a shape, eg "
                f"--input-shape {item.name}={_example(item, extents)}"
            )
        return given[at]
    if dim not in extents:
        raise SymbolError(
            f"symbol '{dim}' (dim {at} of input '{item.name}') has no value; "
            f"give --symbol {dim}=INT"
        )
    return extents[dim]


# assumed: 1 for a batch or channel and 224 for the rest, the usual image, to show the form only.
_EXAMPLE = (1, 3, 224, 224)


def _example(item: DeclaredInput, extents: Mapping[str, int]) -> str:
    dims = item.dims or ()
    guess = (*_EXAMPLE, *(_EXAMPLE[-1] for _ in dims))
    values = (
        dim if isinstance(dim, int) else extents.get(dim or "", guess[at])
        for at, dim in enumerate(dims)
    )
    return _times(tuple(values))


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in shape) or "scalar"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


def check_batch_symbol(name: str, symbols: tuple[str, ...]) -> None:
    """Raise `SymbolError` when the model has no symbol `name`."""
    if name not in symbols:
        raise SymbolError(
            f"batch symbol {name}: the model has no such symbol; it has {_listed(symbols)}"
        )
