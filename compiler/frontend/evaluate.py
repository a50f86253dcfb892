"""Values of calls on known operands: numpy for shape arithmetic, ONNX's reference for the rest."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, prod

import numpy as np
from onnx import ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Call, Signature
from compiler.frontend.tensors import dtype_of, elem_type_of, numpy_dtype, type_of_array
from compiler.ir.dtypes import DType
from compiler.ir.graph import Array

Operands = tuple[Array | None, ...]
_Evaluator = Callable[[Call, tuple[Array, ...]], Array]

# What evaluating a call that contradicts its operands raises, in numpy and in onnx.reference.
_FAILURES = (ValueError, TypeError, IndexError, RuntimeError, ArithmeticError, KeyError)

# Operators whose result is another one at each run.
RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
    }
)


def has_fast_form(call: Call, operands: Operands) -> bool:
    """Whether `evaluate` needs only a few microseconds, so that no type need be inferred first."""
    return not call.domain and call.op in _FAST and all(item is not None for item in operands)


def evaluate(call: Call, operands: Operands) -> tuple[Array, ...]:
    """The values of the outputs that are not left out; `None` stands for an absent operand.

    Small results of small operands are remembered: most shape arithmetic is the same for another
    batch size. Raises `ModelError` when the operands contradict the operator.
    """
    key = _key(call, operands)
    if key is None:
        return _evaluated(call, operands)
    found = _remembered.get(key)
    if found is None:
        found = _evaluated(call, operands)
        _remember(key, found)
    return found


_Known = tuple[np.dtype[np.generic], tuple[int, ...], bytes]
_Key = tuple[Signature, tuple[_Known | None, ...]]

_SMALL_BYTES = 1 << 10
"""assumed: more than shapes, axes and the tables that windows are laid out by take."""

_MOST_REMEMBERED = 1 << 14
"""assumed: several times what the largest models tried fold, and some MB at most."""

_remembered: dict[_Key, tuple[Array, ...]] = {}


def _key(call: Call, operands: Operands) -> _Key | None:
    """All that the values depend on; `None` where that is too large to be kept, or not plain."""
    total = 0
    for item in operands:
        if item is not None:
            total += item.nbytes
            if item.dtype.hasobject:
                return None
    if total > _SMALL_BYTES or call.bodies:
        return None
    return call.signature, tuple(
        None if item is None else (item.dtype, item.shape, item.tobytes()) for item in operands
    )


def _remember(key: _Key, results: tuple[Array, ...]) -> None:
    if sum(item.nbytes for item in results) > _SMALL_BYTES:
        return
    if len(_remembered) >= _MOST_REMEMBERED:
        _remembered.clear()
    for item in results:
        item.setflags(write=False)
    _remembered[key] = results


def _evaluated(call: Call, operands: Operands) -> tuple[Array, ...]:
    given = tuple(item for item in operands if item is not None)
    try:
        with np.errstate(all="ignore"):
            if len(given) == len(operands) and not call.domain and call.op in _FAST:
                return (np.asarray(_FAST[call.op](call, given)),)
            return _reference(call, operands)
    except _FAILURES as error:
        reason = str(error).strip().splitlines()[:1]
        raise ModelError(f"{call.label} cannot be folded: {' '.join(reason)}") from error


def _reference(call: Call, operands: Operands) -> tuple[Array, ...]:
    # Takes longer to import than most models take to compile, and few need it.
    from onnx.reference import ReferenceEvaluator

    model = _single_node_model(call, operands)
    feeds = {f"i{at}": item for at, item in enumerate(operands) if item is not None}
    try:
        results = ReferenceEvaluator(model).run(None, feeds)
    except NotImplementedError as error:
        raise UnsupportedError(
            f"{call.label} depends on constants only, but nothing here evaluates it; "
            "fold it before the export"
        ) from error
    assert isinstance(results, list)
    return tuple(np.asarray(result) for result in results)


def _single_node_model(call: Call, operands: Operands) -> ModelProto:
    model = ModelProto(ir_version=_REFERENCE_IR_VERSION)
    model.opset_import.append(OperatorSetIdProto(domain=call.domain, version=call.opset))
    model.graph.name = "call"
    for at, item in enumerate(operands):
        if item is not None:
            value = ValueInfoProto(name=f"i{at}")
            value.type.tensor_type.elem_type = elem_type_of(type_of_array(item).dtype)
            model.graph.input.append(value)
    node = NodeProto.FromString(call.attribute_bytes)
    node.op_type, node.domain = call.op, call.domain
    node.input.extend("" if item is None else f"i{at}" for at, item in enumerate(operands))
    node.output.extend(f"o{at}" if name else "" for at, name in enumerate(call.outputs))
    model.graph.output.extend(ValueInfoProto(name=name) for name in node.output if name)
    model.graph.node.append(node)
    return model


# The first version in which initializers need not be inputs; the evaluator reads no more of it.
_REFERENCE_IR_VERSION = 4


def _ints(call: Call, name: str) -> tuple[int, ...] | None:
    value = call.attributes.get(name)
    return value if isinstance(value, tuple) else None  # type: ignore[return-value]


def _int(call: Call, name: str, default: int) -> int:
    value = call.attributes.get(name, default)
    return value if isinstance(value, int) else default


def _axes(call: Call, operands: tuple[Array, ...]) -> tuple[int, ...] | None:
    """Axes as the attribute of old opsets or the second operand of newer ones."""
    if len(operands) > 1:
        return tuple(int(axis) for axis in operands[1].reshape(-1))
    return _ints(call, "axes")


def _gather(call: Call, operands: tuple[Array, ...]) -> Array:
    data, indices = operands
    return np.take(data, indices, axis=_int(call, "axis", 0))


def _concat(call: Call, operands: tuple[Array, ...]) -> Array:
    return np.concatenate(operands, axis=_int(call, "axis", 1))


def _unsqueeze(call: Call, operands: tuple[Array, ...]) -> Array:
    return np.expand_dims(operands[0], _axes(call, operands) or ())


def _squeeze(call: Call, operands: tuple[Array, ...]) -> Array:
    return np.squeeze(operands[0], _axes(call, operands))


def _slice(call: Call, operands: tuple[Array, ...]) -> Array:
    data = operands[0]
    if len(operands) > 1:
        starts, ends, *rest = (tuple(map(int, item.reshape(-1))) for item in operands[1:])
        axes = rest[0] if rest else tuple(range(len(starts)))
        steps = rest[1] if len(rest) > 1 else (1,) * len(starts)
    else:
        starts, ends = _ints(call, "starts") or (), _ints(call, "ends") or ()
        axes = _ints(call, "axes") or tuple(range(len(starts)))
        steps = (1,) * len(starts)
    cut = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[axis] = _slice_of(start, end, step, data.shape[axis])
    return np.asarray(data[tuple(cut)])


def _slice_of(start: int, end: int, step: int, extent: int) -> slice:
    """The cut with both ends clamped as the ONNX text of Slice says, which numpy does not do."""
    first = start + extent if start < 0 else start
    last = end + extent if end < 0 else end
    if step > 0:
        return slice(max(first, 0), max(last, 0), step)
    return slice(max(first, 0), last if last >= 0 else None, step)


def _cast(call: Call, operands: tuple[Array, ...]) -> Array:
    dtype = dtype_of(_int(call, "to", 0), call.label)
    if dtype.is_narrow or DType.STRING in (dtype, type_of_array(operands[0]).dtype):
        return _reference(call, operands)[0]
    return operands[0].astype(numpy_dtype(dtype))


def _divide(call: Call, operands: tuple[Array, ...]) -> Array:
    left, right = operands
    if left.dtype.kind not in "iu":
        return np.asarray(left / right, dtype=left.dtype)
    if not np.all(right):
        raise ZeroDivisionError("division by zero")
    # Integers are divided toward zero, as in C; numpy's // rounds down.
    quotient = np.floor_divide(left, right)
    inexact = np.not_equal(np.multiply(quotient, right), left)
    return np.asarray(quotient + (inexact & ((left < 0) != (right < 0))).astype(left.dtype))


def _reshape(call: Call, operands: tuple[Array, ...]) -> Array:
    if len(operands) != 2:
        return _reference(call, operands)[0]
    data, target = operands
    if _int(call, "allowzero", 0):
        return data.reshape(tuple(map(int, target)))
    kept = [data.shape[at] if extent == 0 else int(extent) for at, extent in enumerate(target)]
    return data.reshape(kept)


def _fill(call: Call, operands: tuple[Array, ...]) -> Array:
    value = call.attributes.get("value")
    fill = value.reshape(-1)[0] if isinstance(value, np.ndarray) else np.float32(0)
    return np.full(tuple(map(int, operands[0])), fill, dtype=np.asarray(fill).dtype)


def _range(call: Call, operands: tuple[Array, ...]) -> Array:
    start, limit, delta = (item.reshape(-1)[0] for item in operands)
    count = max(0, int(np.ceil((limit - start) / delta)))
    return np.asarray(start + np.arange(count) * delta, dtype=operands[0].dtype)


def _product(call: Call, operands: tuple[Array, ...]) -> Array:
    if len(operands) > 1 or _ints(call, "axes") is not None or operands[0].ndim != 1:
        return _reference(call, operands)[0]
    keep = (1,) if _int(call, "keepdims", 1) else ()
    return np.asarray(np.prod(operands[0]), dtype=operands[0].dtype).reshape(keep)


def _elementwise(function: Callable[..., Array]) -> _Evaluator:
    return lambda call, operands: function(*operands)


_FAST: dict[str, _Evaluator] = {
    "Identity": lambda call, operands: operands[0],
    "Gather": _gather,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Cast": _cast,
    "Div": _divide,
    "Reshape": _reshape,
    "ConstantOfShape": _fill,
    "Range": _range,
    "ReduceProd": _product,
    "Add": _elementwise(np.add),
    "Sub": _elementwise(np.subtract),
    "Mul": _elementwise(np.multiply),
    "Neg": _elementwise(np.negative),
    "Equal": _elementwise(np.equal),
    "Greater": _elementwise(np.greater),
    "Less": _elementwise(np.less),
    "Not": _elementwise(np.logical_not),
    "And": _elementwise(np.logical_and),
    "Or": _elementwise(np.logical_or),
    "Where": _elementwise(np.where),
    "Floor": _elementwise(np.floor),
    "Ceil": _elementwise(np.ceil),
    "Sqrt": _elementwise(np.sqrt),
}


def result_elements(call: Call, operands: Operands) -> int:
    """The most elements that the fast form of `evaluate` may give."""
    given = [item for item in operands if item is not None]
    sizes = [item.size for item in given]
    match call.op:
        case "ConstantOfShape":
            return prod(max(0, int(extent)) for extent in given[0].reshape(-1))
        case "Range":
            return _range_elements(given)
        case "Gather":
            return sizes[0] * sizes[-1]
        case "Add" | "Sub" | "Mul" | "Div" | "Equal" | "Greater" | "Less" | "And" | "Or" | "Where":
            return prod(max(size, 1) for size in sizes)
    return sum(sizes)


def _range_elements(operands: list[Array]) -> int:
    start, limit, delta = (float(item.reshape(-1)[0]) for item in operands)
    count = abs((limit - start) / delta) if delta else 0.0
    # What is no number is told by the evaluation itself.
    return int(count) + 1 if isfinite(count) else 0
