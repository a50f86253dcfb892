"""A model file made ready for binding: everything that no batch size or symbol changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from onnx import IR_VERSION, GraphProto, ModelProto, checker, defs, inliner

from compiler.errors import ModelError, UnsupportedError
from compiler.frontend.calls import Body, Call, Decoder, default_domain
from compiler.frontend.inlining import check_inlined
from compiler.frontend.model_file import ModelFile, read_model_file
from compiler.frontend.order import is_sorted, ordered
from compiler.frontend.shapes import through_elementwise
from compiler.frontend.symbols import (
    DeclaredInput,
    batch_symbol_candidates,
    check_batch_symbol,
    declared_input,
    declared_shapes,
    found_batch_symbol,
    symbols_of,
)
from compiler.frontend.text import text
from compiler.frontend.walk import Walk
from compiler.ir.graph import Constant, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What is known before symbols are bound: constants, and the calls that wait for inputs.

    `declared` are the shapes of results that the model states in full, `output_types` the element
    types (ONNX `data_type` numbers) that it states for its outputs.
    """

    inputs: tuple[DeclaredInput, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, Constant]
    declared: Mapping[str, tuple[int, ...]]
    output_types: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """A model file that was read and checked.

    `sha256` (hex) is of the file and of the external data that it names. `symbols` are the
    symbolic dims of the inputs, sorted; `batch_symbol_candidates` those that come first in an
    input, in the order of the inputs. `opsets` are (domain, version), the default domain is ''.
    `notes` are sentences for the user: what was put right in the file.
    """

    path: Path
    sha256: str
    name: str
    symbols: tuple[str, ...]
    batch_symbol_candidates: tuple[str, ...]
    opsets: tuple[tuple[str, int], ...]
    notes: tuple[str, ...]
    _prepared: Prepared = field(repr=False, compare=False)


def load_model(path: Path) -> OnnxModel:
    """Read a model file; weights stay on disk until a constant's values are asked for.

    Raises `ModelFileError` for a file that is no complete ONNX file or names external data that
    are missing or not in its folder, `ModelError` and `UnsupportedError` for what is in it.
    """
    file = read_model_file(path)
    proto = _without_functions(file)
    opsets = _opsets(proto)
    body = _body(file, proto, opsets)
    prepared = _prepared(proto, ordered(body))
    return OnnxModel(
        path=path,
        sha256=file.sha256,
        name=text(proto.graph.name) or path.stem,
        symbols=symbols_of(prepared.inputs),
        batch_symbol_candidates=batch_symbol_candidates(prepared.inputs),
        opsets=tuple(sorted(opsets.items())),
        notes=() if is_sorted(body) else (_UNSORTED.format(path.name),),
        _prepared=prepared,
    )


def prepared(model: OnnxModel) -> Prepared:
    """What binding starts from."""
    return model._prepared


def batch_symbol_of(model: OnnxModel, named: str | None = None) -> str | None:
    """The symbol that stands for the batch: `named` when given, else found by itself.

    Found is the symbol that leads every input whose first dim is symbolic; `None` when no input
    has one (the batch is fixed) or several differ. Raises `SymbolError` when the model lacks
    `named`.
    """
    if named is not None:
        check_batch_symbol(named, model.symbols)
        return named
    return found_batch_symbol(model.batch_symbol_candidates)


def _without_functions(file: ModelFile) -> ModelProto:
    if not file.proto.functions:
        return file.proto
    check_inlined(file.proto)
    try:
        return inliner.inline_local_functions(file.proto)
    except (RuntimeError, checker.ValidationError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"{file.path}: its local functions cannot be expanded: {reason}"
        ) from error


_UNSORTED = "{}: the nodes are not in topological order, which ONNX demands; they were sorted"

# Before opset 7, binary operators broadcast by an axis attribute (ONNX changelog, opset 7).
OLDEST_OPSET = 7


def _opsets(proto: ModelProto) -> dict[str, int]:
    imports = {default_domain(text(item.domain)): item.version for item in proto.opset_import}
    # Before IR version 3 a model could not say; it then means version 1 of the default domain.
    opsets = imports or {"": 1}
    newest = defs.onnx_opset_version()
    opset = opsets.get("", OLDEST_OPSET)
    if opset > newest or (opset < OLDEST_OPSET and _has_changed(proto.graph, opset)):
        raise UnsupportedError(
            f"the model uses opset {opset}, supported are {OLDEST_OPSET} to {newest}; "
            "convert it with onnx.version_converter"
        )
    if proto.ir_version > IR_VERSION:
        raise UnsupportedError(
            f"the model has IR version {proto.ir_version}, known are up to {IR_VERSION}; "
            "export it with an older onnx package"
        )
    return opsets


def _has_changed(graph: GraphProto, opset: int) -> bool:
    """Whether a node means something else in `opset` than in the oldest one that is supported."""
    return any(
        _since(node.op_type, opset) != _since(node.op_type, OLDEST_OPSET)
        or any(_has_changed(item.g, opset) for item in node.attribute)
        for node in graph.node
        if not default_domain(node.domain)
    )


def _since(op: str, opset: int) -> int | None:
    """The opset from which on an operator has the meaning that it has in `opset`."""
    if not defs.has(op, max_inclusive_version=opset, domain=""):
        return None
    return defs.get_schema(op, opset, "").since_version


def _body(file: ModelFile, proto: ModelProto, opsets: Mapping[str, int]) -> Body:
    if not proto.graph.node:
        raise ModelError(f"{file.path}: the graph has no nodes, so there is nothing to compile")
    if not proto.graph.output:
        raise ModelError(f"{file.path}: the graph has no outputs, so there is nothing to compile")
    decoder = Decoder(file.path.parent, opsets, MappingProxyType(file.embedded))
    return decoder.body(proto.graph)


def _prepared(proto: ModelProto, body: Body) -> Prepared:
    by_name = {value.name: value for value in proto.graph.input}
    inputs = tuple(declared_input(by_name[name]) for name in body.inputs)
    known = {name: item.type for name, item in body.constants.items()}
    stated = declared_shapes((*proto.graph.output, *proto.graph.value_info))
    declared = through_elementwise(body.calls, stated)
    walk = Walk(known, body.constants, declared)
    waiting: list[Call] = []
    walk.run(body.calls, waiting.append)
    return Prepared(
        inputs,
        body.outputs,
        tuple(waiting),
        MappingProxyType(walk.types),
        MappingProxyType(walk.constants),
        MappingProxyType(declared),
        MappingProxyType(_output_types(proto)),
    )


def _output_types(proto: ModelProto) -> dict[str, int]:
    stated = {item.name: item.type.tensor_type.elem_type for item in proto.graph.output}
    return {name: elem_type for name, elem_type in stated.items() if elem_type}
