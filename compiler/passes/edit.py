"""A graph under edit: who makes each value, who uses it, and rewrites that keep both right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from compiler.ir.dtypes import DType
from compiler.ir.graph import Constant, Graph, Node, TensorType, value_of
from compiler.operators import INTERNAL_DOMAIN
from compiler.passes.base import PassResult

_DOMAINS = frozenset({"", "ai.onnx", INTERNAL_DOMAIN})

Rule = Callable[["GraphEdit", Node], None]
Rank = tuple[int, int]


def rewrite(graph: Graph, *tables: Mapping[str, Rule]) -> PassResult:
    """Apply to each node the rule of its operator, in graph order, until nothing changes.

    A table of rules has its turn when those before it find nothing more to change.
    """
    if not any(node.op in rules for node in graph.nodes for rules in tables):
        return PassResult(graph, changed=False)
    edit = GraphEdit(graph)
    while any(edit.sweep(rules) for rules in tables):
        pass
    return edit.result()


def trimmed(graph: Graph, nodes: tuple[Node, ...]) -> Graph:
    """The graph with these nodes, less the constants and types that they do not use."""
    used = {name for node in nodes for name in node.inputs}
    used.update(graph.outputs)
    named = used.union(graph.inputs, *(node.outputs for node in nodes))
    return replace(
        graph,
        nodes=nodes,
        types={name: type_ for name, type_ in graph.types.items() if name in named},
        constants={name: value for name, value in graph.constants.items() if name in used},
    )


class GraphEdit:
    """A graph that one pass changes in place.

    A node that is replaced takes with it every node that only it used, so use counts are exact
    at any moment: a rule may trust `single_use` in the middle of a sweep.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outputs = frozenset(graph.outputs)
        self._types = dict(graph.types)
        self._constants = dict(graph.constants)
        self._derived: dict[str, str] = {}
        self._nodes = dict(enumerate(graph.nodes))
        self._rank: dict[int, Rank] = {handle: (handle, 0) for handle in self._nodes}
        self._first_handles = len(self._nodes)
        self._maker: dict[str, int] = {}
        self._users: dict[str, dict[int, int]] = {}
        self._changes = 0
        for handle, node in self._nodes.items():
            self._connect(handle, node)

    def type(self, name: str) -> TensorType:
        """Element type and shape of a value."""
        return self._types[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a value."""
        return self._types[name].shape

    def is_float(self, name: str) -> bool:
        """Whether a value is in floating point."""
        return self._types[name].dtype.is_float

    def constant(self, name: str) -> Constant | None:
        """The value's constant, if it is one."""
        return self._constants.get(name)

    def scalar(self, name: str) -> float | None:
        """The only element of a numeric constant that has just one."""
        constant = self._constants.get(name)
        if constant is None or constant.type.elements != 1:
            return None
        if constant.type.dtype is DType.STRING:
            return None
        return float(value_of(constant).reshape(-1)[0])

    def ints(self, name: str) -> tuple[int, ...] | None:
        """A constant's elements as integers; for shapes, axes and the like."""
        constant = self._constants.get(name)
        if constant is None:
            return None
        return tuple(int(v) for v in value_of(constant).reshape(-1))

    def producer(self, name: str, *ops: str) -> Node | None:
        """The node that makes a value, if its operator is one of `ops` (or `ops` is empty)."""
        handle = self._maker.get(name)
        if handle is None:
            return None
        node = self._nodes[handle]
        matches = not ops or (node.op in ops and node.domain in _DOMAINS)
        return node if matches else None

    def uses(self, name: str) -> int:
        """How often a value is read, by nodes or as an output of the graph."""
        return sum(self._users.get(name, {}).values()) + (name in self._outputs)

    def single_use(self, name: str) -> bool:
        """Whether one node reads the value once, and the graph does not return it."""
        return name not in self._outputs and self.uses(name) == 1

    def only_user(self, name: str, *ops: str) -> Node | None:
        """The node that alone reads a value, if its operator is one of `ops`."""
        if not self.single_use(name):
            return None
        node = self._nodes[next(iter(self._users[name]))]
        return node if node.op in ops and node.domain in _DOMAINS else None

    def add_constant(self, hint: str, constant: Constant, key: str = "") -> str:
        """Add a constant and give its name; equal non-empty keys share one constant."""
        if key and key in self._derived:
            return self._derived[key]
        name = self.add_value(hint, constant.type)
        self._constants[name] = constant
        if key:
            self._derived[key] = name
        return name

    def add_value(self, hint: str, type_: TensorType) -> str:
        """Reserve the name of a new value."""
        name, count = hint, 1
        while name in self._types:
            count += 1
            name = f"{hint}.{count}"
        self._types[name] = type_
        return name

    def is_output(self, name: str) -> bool:
        """Whether the graph returns the value."""
        return name in self._outputs

    def insert(self, node: Node, *nodes: Node) -> None:
        """Put `nodes` before `node`; they must not make what it makes."""
        position, order = self._rank[self._handle(node)]
        for extra in nodes:
            self._insert(extra, (position, order - 1))
        self._changes += 1

    def substitute(self, node: Node, *nodes: Node) -> None:
        """Put `nodes` in the place of `node`; the last one makes what is used of its outputs."""
        handle = self._handle(node)
        position, order = self._rank[handle]
        *before, last = nodes
        for extra in before:
            self._insert(extra, (position, order))
            order += 1
        self._disconnect(handle, node)
        self._nodes[handle] = last
        self._rank[handle] = (position, order)
        self._connect(handle, last)
        self._changes += 1
        self._bury(node.inputs)

    def forward(self, node: Node, *values: str) -> bool:
        """Read `values` wherever `node`'s outputs are read, and drop `node`.

        An output of the graph keeps its name: the node that makes the value takes it over. Where
        it cannot (the value is an input, a constant, or returned itself) nothing is changed and
        the result is false.
        """
        pairs = [(old, new) for old, new in zip(node.outputs, values, strict=False) if old]
        returned = [new for old, new in pairs if old in self._outputs]
        if len(returned) > 1 or any(not self._can_rename(name) for name in returned):
            return False
        handle = self._handle(node)
        self._disconnect(handle, node)
        del self._nodes[handle]
        for old, new in pairs:
            if old in self._outputs:
                self._rename(new, old)
            else:
                self._redirect(old, new)
        self._changes += 1
        self._bury(node.inputs)
        return True

    def sweep(self, rules: Mapping[str, Rule]) -> bool:
        """Offer each node to its operator's rule once; whether anything changed."""
        before = self._changes
        for handle in self._order():
            node = self._nodes.get(handle)
            if node is not None and node.op in rules and node.domain in _DOMAINS:
                rules[node.op](self, node)
        return self._changes != before

    def result(self) -> PassResult:
        """The graph as it is now."""
        if not self._changes:
            return PassResult(self._graph, changed=False)
        nodes = tuple(self._nodes[handle] for handle in self._order())
        graph = replace(self._graph, types=self._types, constants=self._constants)
        return PassResult(trimmed(graph, nodes), changed=True)

    def _order(self) -> list[int]:
        if len(self._rank) == self._first_handles:
            return list(self._nodes)  # nothing was put between
        return sorted(self._nodes, key=self._rank.__getitem__)

    def _handle(self, node: Node) -> int:
        return self._maker[next(name for name in node.outputs if name)]

    def _insert(self, node: Node, rank: Rank) -> None:
        handle = len(self._rank)
        self._rank[handle] = rank
        self._nodes[handle] = node
        self._connect(handle, node)

    def _connect(self, handle: int, node: Node) -> None:
        for name in node.outputs:
            if name:
                self._maker[name] = handle
        for name in node.inputs:
            if name:
                users = self._users.setdefault(name, {})
                users[handle] = users.get(handle, 0) + 1

    def _disconnect(self, handle: int, node: Node) -> None:
        for name in node.outputs:
            self._maker.pop(name, None)
        for name in node.inputs:
            if name:
                self._users[name].pop(handle, None)

    def _bury(self, names: tuple[str, ...]) -> None:
        """Drop the nodes that make nothing but unused values, starting with `names`."""
        pending = list(names)
        while pending:
            handle = self._maker.get(pending.pop())
            if handle is None:
                continue
            node = self._nodes[handle]
            if not any(self.uses(name) for name in node.outputs if name):
                self._disconnect(handle, node)
                del self._nodes[handle]
                pending.extend(node.inputs)

    def _can_rename(self, name: str) -> bool:
        return name in self._maker and name not in self._outputs

    def _rename(self, old: str, new: str) -> None:
        """Let the node that makes `old` make `new`, which nobody makes at the moment."""
        handle = self._maker[old]
        node = self._nodes[handle]
        self._disconnect(handle, node)
        outputs = tuple(new if name == old else name for name in node.outputs)
        self._nodes[handle] = replace(node, outputs=outputs)
        self._connect(handle, self._nodes[handle])
        self._redirect(old, new)

    def _redirect(self, old: str, new: str) -> None:
        for handle in tuple(self._users.get(old, ())):
            node = self._nodes[handle]
            self._disconnect(handle, node)
            inputs = tuple(new if name == old else name for name in node.inputs)
            self._nodes[handle] = replace(node, inputs=inputs)
            self._connect(handle, self._nodes[handle])
