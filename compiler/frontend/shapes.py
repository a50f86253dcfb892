"""Types of a call's results, by ONNX's own inference for the operator, remembered by operands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
from onnx import (
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    checker,
    defs,
    shape_inference,
)

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Call, Signature
from compiler.frontend.tensors import dtype_of, elem_type_of
from compiler.ir.graph import Array, TensorType
from compiler.operators import WorkKind, find
from compiler.program import VectorOp

Inferred = tuple[int, tuple[int, ...] | None]

# assumed: a few times the distinct calls of the largest models tried (some 2,000), so that
# compiling one model again with another batch size finds what does not depend on it.
_REMEMBERED = 1 << 15


def infer(
    call: Call,
    types: tuple[TensorType | None, ...],
    values: tuple[Array | None, ...],
    declared: Mapping[str, tuple[int, ...]],
) -> tuple[TensorType, ...]:
    """The type of each output (left-out outputs have none and are skipped).

    `types` and `values` go with `call.inputs`; a value is given where it is known and may decide
    a shape. `declared` are the shapes that the model itself states for its results, by name: they
    count where data would decide a shape. Raises `UnsupportedError` when a shape depends on data,
    or nothing is known about the operator, `ModelError` when the operands contradict the operator.
    """
    data = tuple(None if value is None else value.tobytes() for value in values)
    check_known(call)
    try:
        inferred = _infer(call.signature, types, data)
    except (shape_inference.InferenceError, checker.ValidationError, ValueError) as error:
        shapes = ", ".join(_text(item) for item in types)
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{call.label} cannot take operands {shapes}: {reason}") from error
    nothing = any(item is not None and item.elements == 0 for item in types)
    return tuple(
        _known(call, _completed(call, types, item), declared.get(name), of_nothing=nothing)
        for name, item in zip(filter(None, call.outputs), inferred, strict=True)
    )


def check_arity(call: Call) -> None:
    """Raise `ModelError` when the call has more or fewer inputs or outputs than its operator."""
    bounds = _arity(call.op, call.opset, call.domain)
    if bounds is None:
        return
    inputs, outputs = bounds
    if len(call.inputs) not in inputs or len(call.outputs) not in outputs:
        raise ModelError(
            f"{call.label} has {len(call.inputs)} inputs and {len(call.outputs)} outputs, the "
            f"operator takes {_bounds(inputs)} and {_bounds(outputs)}"
        )


def least_outputs(call: Call) -> int:
    """How many results the operator must name at least, used or not; 1 where it is not known."""
    bounds = _arity(call.op, call.opset, call.domain)
    return 1 if bounds is None else max(1, min(bounds[1].start, len(call.outputs)))


def _bounds(counts: range) -> str:
    return f"{counts.start} to {counts.stop - 1}" if len(counts) > 1 else str(counts.start)


@lru_cache
def _arity(op: str, opset: int, domain: str) -> tuple[range, range] | None:
    if not defs.has(op, max_inclusive_version=opset, domain=domain):
        return None
    schema = defs.get_schema(op, opset, domain)
    inputs = range(schema.min_input, schema.max_input + 1)
    return inputs, range(schema.min_output, schema.max_output + 1)


def check_known(call: Call) -> None:
    """Raise `UnsupportedError` when ONNX has no such operator in the opset of the call."""
    if _arity(call.op, call.opset, call.domain) is None:
        raise UnsupportedError(
            f"{call.label}: the operator is unknown; export it as standard operators or as a "
            "local function of the model"
        )


def _completed(call: Call, types: tuple[TensorType | None, ...], inferred: Inferred) -> Inferred:
    """`inferred`, with a shape also for the few operators that ONNX has no inference for.

    These are function operators: GreaterOrEqual and LessOrEqual below opset 16,
    GroupNormalization, MeanVarianceNormalization.
    """
    elem_type, shape = inferred
    row = find(call.domain, call.op)
    given = [item for item in types if item is not None]
    if shape is not None or row is None or not given:
        return inferred
    if row.kind is WorkKind.ELEMENTWISE:
        return elem_type, _broadcast(call, given)
    if row.vector is VectorOp.NORMALIZE:
        return elem_type or elem_type_of(given[0].dtype), given[0].shape
    return inferred


def _broadcast(call: Call, types: list[TensorType]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(item.shape for item in types))
    except ValueError as error:
        shapes = ", ".join(map(_text, types))
        raise ModelError(f"{call.label}: shapes {shapes} do not broadcast") from error


def _known(
    call: Call, inferred: Inferred, declared: tuple[int, ...] | None, *, of_nothing: bool
) -> TensorType:
    elem_type, shape = inferred
    # An extent of 0 mostly means that the exporter did not know it.
    if shape is None and declared is not None and (of_nothing or 0 not in declared):
        shape = declared
    if shape is None:
        raise UnsupportedError(
            f"{call.label} gives a result whose shape depends on the data; cut the graph before "
            "this node and run the rest on the host, make its shape operands "
            "constant, or have the model declare the shape of its result"
        )
    if any(extent < 0 for extent in shape):
        raise ModelError(f"{call.label} gives a negative extent in {list(shape)}")
    return TensorType(dtype_of(elem_type, call.label), shape)


@lru_cache(maxsize=_REMEMBERED)
def _infer(
    signature: Signature, types: tuple[TensorType | None, ...], data: tuple[bytes | None, ...]
) -> tuple[Inferred, ...]:
    schema = defs.get_schema(signature.op, signature.opset, signature.domain)
    node = node_of(signature)
    if schema.deprecated:
        # GroupNormalization below opset 21 is; the inference would refuse it.
        return tuple((0, None) for name in node.output if name)
    outputs = shape_inference.infer_node_outputs(
        schema,
        node,
        {f"i{at}": type_proto(item) for at, item in enumerate(types) if item is not None},
        {
            f"i{at}": TensorProto(
                data_type=elem_type_of(item.dtype), dims=item.shape, raw_data=raw
            )
            for at, (item, raw) in enumerate(zip(types, data, strict=True))
            if item is not None and raw is not None
        },
        opset_imports=[OperatorSetIdProto(domain=signature.domain, version=signature.opset)],
    )
    return tuple(_inferred(outputs.get(name)) for name in node.output if name)


def node_of(signature: Signature) -> NodeProto:
    """A node of that signature, its operands called i0, i1 and so on, its results o0."""
    node = NodeProto.FromString(signature.attributes)
    node.op_type, node.domain = signature.op, signature.domain
    inputs, outputs = signature.present
    node.input.extend(f"i{at}" if given else "" for at, given in enumerate(inputs))
    node.output.extend(f"o{at}" if given else "" for at, given in enumerate(outputs))
    return node


def type_proto(tensor_type: TensorType) -> TypeProto:
    """The ONNX message of a tensor type."""
    proto = TypeProto()
    tensor = proto.tensor_type
    tensor.elem_type = elem_type_of(tensor_type.dtype)
    tensor.shape.SetInParent()
    for extent in tensor_type.shape:
        tensor.shape.dim.add().dim_value = extent
    return proto


def _inferred(proto: TypeProto | None) -> Inferred:
    if proto is None or not proto.tensor_type.HasField("shape"):
        return (0 if proto is None else proto.tensor_type.elem_type), None
    dims = proto.tensor_type.shape.dim
    shape = tuple(dim.dim_value for dim in dims) if all(map(_has_value, dims)) else None
    return proto.tensor_type.elem_type, shape


def _has_value(dim: object) -> bool:
    return bool(dim.HasField("dim_value"))  # type: ignore[attr-defined]


def _text(item: TensorType | None) -> str:
    if item is None:
        return "(none)"
    return "x".join(str(extent) for extent in item.shape) or "scalar"


def may_decide_a_shape(call: Call, tensor_type: TensorType) -> bool:
    """Whether the values of an operand of this type may decide the shape of the result."""
    return not tensor_type.dtype.is_float or call.op in {"Resize", "Upsample", "Range"}


def through_elementwise(
    calls: Iterable[Call], declared: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """`declared` and the shapes of what comes from them by operators on single elements."""
    found = dict(declared)
    for call in reversed(tuple(calls)):
        row = find(call.domain, call.op)
        is_unary = len(call.inputs) == 1 or call.op == "CastLike"
        if row is None or row.kind is not WorkKind.ELEMENTWISE or not is_unary:
            continue
        shape = found.get(call.outputs[0])
        if shape is not None:
            found.setdefault(call.inputs[0], shape)
    return found
