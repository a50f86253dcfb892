"""How large a model becomes when its local functions are put in the place of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import FunctionProto, ModelProto, NodeProto

from compiler.errors import ModelError, UnsupportedError

_MAX_INLINED_NODES = 100_000
"""assumed: as for loops, more than any model tried has; compiling more would take minutes."""

_MAX_DEPTH = 100
"""What onnx.inliner goes down to itself."""

_Key = tuple[str, str, str]


def check_inlined(proto: ModelProto) -> None:
    """Refuse functions that call each other so often that no memory would hold the result."""
    functions = {(item.domain, item.name, item.overload): item for item in proto.functions}
    sizes: dict[_Key, int] = {}
    count = _size(proto.graph.node, functions, sizes, 0)
    if count > _MAX_INLINED_NODES:
        raise UnsupportedError(
            f"the local functions expand to {count} nodes, the limit is {_MAX_INLINED_NODES}; "
            "export the model with fewer nested functions"
        )


def _size(
    nodes: Iterable[NodeProto],
    functions: Mapping[_Key, FunctionProto],
    sizes: dict[_Key, int],
    depth: int,
) -> int:
    """Nodes after the expansion; `sizes` remembers that of each function."""
    if depth > _MAX_DEPTH:
        raise ModelError(
            f"the local functions call each other more than {_MAX_DEPTH} deep, or themselves; "
            "export the model without them"
        )
    total = 0
    for node in nodes:
        key = (node.domain, node.op_type, node.overload)
        if key in functions and key not in sizes:
            sizes[key] = _size(functions[key].node, functions, sizes, depth + 1)
        total += sizes.get(key, 1)
        total += sum(
            _size(item.g.node, functions, sizes, depth + 1)
            for item in node.attribute
            if item.HasField("g")
        )
    return total
