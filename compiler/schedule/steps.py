"""From a graph to steps: what each operator asks of HMX, HVX and memory, before any splitting.

A step is one operator with what runs for free inside it (bias, ReLU after a matrix operator).
Tensors are named by their storage: a view has no step of its own. Activations are fp16 in VTCM.
They are in the tensor engine's block layout (D32) behind matrix operators and normalisations and
in row order (flat) where an operator needs rows; a change of layout is a step of its own, as in
the vendor's device profile of BERT-base (sdk Profiler notebook: convertfromd32, converttod32,
convertweightstod32 beside each attention product).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from compiler.errors import UnsupportedError
from compiler.ir.graph import Graph, Node, TensorType
from compiler.operators import OPERATORS, Operator, WorkKind
from compiler.program import VectorOp

ACTIVATION_BYTES = 2
"""Bytes of a float element on the device: all float arithmetic runs in fp16."""

BLOCK = 32
"""Channels of one HMX block (qemu-hmx: 32 rows x 32 channels in fp16)."""

NARROW = 4
"""Channels of the device's depth-4 layouts (network descriptor: D4 variants), for images."""

_FREE_AFTER_MATRIX = frozenset({"Relu", "Clip"})
_FLAT_OPS = frozenset({"Transpose", "Softmax", "LogSoftmax", "Gather", "ArgMax", "TopK", "CumSum"})


class Access(Enum):
    """Which part of an input a core needs for its part of the output.

    LOCAL    the same fraction
    HALO     the same fraction and the rows beside it (`Operand.halo_bytes` a cut)
    CHANNELS the same rows with all their channels
    GROUP    all of the matrices that its rows take part in (the second operand of a product)
    REMAP    an arbitrary part of the same sample
    """

    LOCAL = "local"
    HALO = "halo"
    CHANNELS = "channels"
    GROUP = "group"
    REMAP = "remap"


@dataclass(frozen=True, slots=True)
class Operand:
    """One activation that a step reads."""

    tensor: str
    access: Access
    halo_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MatrixWork:
    """A product as HMX sees it: `rows` x (`inputs` x `repeats`) x `outputs`, for all samples.

    The rows of each matrix of a stack are padded to whole blocks, as the layout has them; `macs`
    counts what the operator asks for, without padding. In a `channelwise` product (depthwise)
    an output channel needs no other input channel than its own block's.
    """

    rows: int
    inputs: int
    outputs: int
    repeats: int
    macs: int
    channelwise: bool = False


@dataclass(frozen=True, slots=True)
class VectorWork:
    """Elements of one class of HVX work, for all samples."""

    op: VectorOp
    elements: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation in memory.

    `row_units` is how many equal pieces its rows can be cut into (samples x lines), `channels`
    the extent that a channel split divides.
    """

    name: str
    size_bytes: int
    row_units: int
    channels: int


class StepKind(Enum):
    """Where a step's work lies; INPUT and OUTPUT are the borders to the host's buffers in DDR."""

    INPUT = "input"
    MATRIX = "matrix"
    VECTOR = "vector"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Step:
    """One operator's work for the whole batch, unsplit.

    `weight_bytes` are constants that must be in VTCM while the step runs, as the device stores
    them; `table_bytes` are bytes that it picks out of a constant that stays in DDR;
    `host_bytes` are bytes of the host's buffer that an INPUT reads or an OUTPUT writes.
    `samples` is how many samples of the batch this step is for.
    """

    name: str
    op: str
    kind: StepKind
    operands: tuple[Operand, ...]
    output: Tensor
    shape: tuple[int, ...]
    matrix: MatrixWork | None = None
    vector: tuple[VectorWork, ...] = ()
    weight_bytes: int = 0
    table_bytes: int = 0
    host_bytes: int = 0
    samples: int = 1


class _Layout(Enum):
    D32 = "d32"
    FLAT = "flat"


class _Builder:
    """Walks a graph once; keeps storage names, layouts and the steps so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self.storage: dict[str, str] = {}
        self.layout: dict[str, _Layout] = {}
        self.tensors: dict[str, Tensor] = {}
        self.uses = Counter(name for node in graph.nodes for name in node.inputs)
        self.uses.update(graph.outputs)
        self.fused: dict[str, str] = {}

    def build(self) -> tuple[Step, ...]:
        for name in self.graph.inputs:
            self._input(name)
        followers = self._followers()
        for node in self.graph.nodes:
            if node.name in followers:
                self._alias(node.inputs[0], node.outputs[0])
            else:
                self._node(node, followers)
        for name in self.graph.outputs:
            if not self.graph.is_constant(name):
                self._output(name)
        return tuple(self.steps)

    def _followers(self) -> frozenset[str]:
        """Nodes that run for free in the output stage of the matrix operator before them."""
        producer = {out: node for node in self.graph.nodes for out in node.outputs}
        found = set()
        for node in self.graph.nodes:
            source = producer.get(node.inputs[0]) if node.inputs else None
            if node.op not in _FREE_AFTER_MATRIX or source is None:
                continue
            if self.uses[node.inputs[0]] == 1 and _operator(source).kind is WorkKind.MATRIX:
                found.add(node.name)
                self.fused[source.name] = node.op
        return frozenset(found)

    def _alias(self, source: str, target: str) -> None:
        self.storage[target] = self.storage[source]

    def _tensor(self, name: str, type_: TensorType) -> Tensor:
        channels_last = len(type_.shape) != 4
        shape = type_.shape or (1,)
        width = shape[-1] if channels_last else shape[1]
        units = prod(shape[:-1]) if channels_last else shape[0] * shape[2]
        size = stored_bytes(type_)
        return Tensor(name, size, max(units, 1), max(width, 1))

    def _add(self, step: Step, layout: _Layout) -> None:
        self.steps.append(replace(step, samples=self.graph.batch_size))
        self.tensors[step.output.name] = step.output
        self.layout[step.output.name] = layout

    def _input(self, name: str) -> None:
        type_ = self.graph.types[name]
        self.storage[name] = name
        convert = (VectorWork(VectorOp.CONVERT, type_.elements),) if type_.dtype.is_float else ()
        step = Step(
            name=name,
            op="Input",
            kind=StepKind.INPUT,
            operands=(),
            output=self._tensor(name, type_),
            shape=type_.shape,
            vector=convert,
            host_bytes=type_.size_bytes,
        )
        self._add(step, _Layout.FLAT)

    def _output(self, name: str) -> None:
        type_ = self.graph.types[name]
        source = self._in_layout(self.storage[name], type_, _Layout.FLAT, VectorOp.FROM_D32)
        convert = (VectorWork(VectorOp.CONVERT, type_.elements),) if type_.dtype.is_float else ()
        out = Tensor(f"{name}:host", 0, self.tensors[source].row_units, 1)
        step = Step(
            name=f"{name}:host",
            op="Output",
            kind=StepKind.OUTPUT,
            operands=(Operand(source, Access.LOCAL),),
            output=out,
            shape=type_.shape,
            vector=convert,
            host_bytes=type_.size_bytes,
        )
        self._add(step, _Layout.FLAT)

    def _node(self, node: Node, followers: frozenset[str]) -> None:
        operator = _operator(node)
        if operator.kind is WorkKind.VIEW:
            self._view(node)
        elif operator.kind is WorkKind.MATRIX:
            self._matrix(node)
        else:
            self._vector(node, operator)

    def _view(self, node: Node) -> None:
        if self.graph.is_constant(node.inputs[0]):
            raise UnsupportedError(f"{node.name}: a view of a constant was not folded")
        for output in node.outputs:
            if output:
                self._alias(node.inputs[0], output)

    def _in_layout(self, tensor: str, type_: TensorType, layout: _Layout, op: VectorOp) -> str:
        """The storage name of `tensor` in `layout`, converting it once if need be."""
        if self.layout[tensor] is layout and op is not VectorOp.WEIGHTS_TO_D32:
            return tensor
        name = f"{tensor}:{op.name.lower()}"
        if name in self.tensors:
            return name
        old = self.tensors[tensor]
        step = Step(
            name=name,
            op=op.name.title().replace("_", ""),
            kind=StepKind.VECTOR,
            operands=(Operand(tensor, Access.LOCAL),),
            output=Tensor(name, old.size_bytes, old.row_units, old.channels),
            shape=type_.shape,
            vector=(VectorWork(op, type_.elements),),
        )
        self._add(step, layout)
        return name

    def _activations(self, node: Node) -> list[str]:
        return [n for n in node.inputs if n and not self.graph.is_constant(n)]

    def _constant_bytes(self, names: tuple[str, ...]) -> int:
        constants = [self.graph.constants[n].type for n in names if n in self.graph.constants]
        return sum(stored_bytes(type_) for type_ in constants)

    def _matrix(self, node: Node) -> None:
        first = node.inputs[0]
        second = node.inputs[1] if len(node.inputs) > 1 else ""
        work = _matrix_work(node, self.graph)
        operands = []
        if not self.graph.is_constant(first):
            tensor = self._in_layout(
                self.storage[first], self.graph.types[first], _Layout.D32, VectorOp.TO_D32
            )
            operands.append(self._window(node, tensor, first))
        if second and not self.graph.is_constant(second):
            tensor = self._in_layout(
                self.storage[second],
                self.graph.types[second],
                _Layout.D32,
                VectorOp.WEIGHTS_TO_D32,
            )
            operands.append(Operand(tensor, Access.GROUP))
        out = node.outputs[0]
        self.storage[out] = out
        follower = self.fused.get(node.name)
        step = Step(
            name=node.name,
            op=node.op if follower is None else f"{node.op}+{follower}",
            kind=StepKind.MATRIX,
            operands=tuple(operands),
            output=self._tensor(out, self.graph.types[out]),
            shape=self.graph.types[out].shape,
            matrix=work,
            weight_bytes=self._constant_bytes(node.inputs),
        )
        self._add(step, _Layout.D32)

    def _window(self, node: Node, tensor: str, name: str) -> Operand:
        if node.op not in ("Conv", "ConvTranspose"):
            return Operand(tensor, Access.CHANNELS)
        shape = self.graph.types[name].shape
        halo = _halo_rows(node, self.graph.types[node.inputs[1]].shape[2:], len(shape))
        row_bytes = shape[1] * prod(shape[3:]) * ACTIVATION_BYTES
        return Operand(tensor, Access.CHANNELS, halo * row_bytes)

    def _vector(self, node: Node, operator: Operator) -> None:
        layout = _Layout.FLAT if node.op in _FLAT_OPS else None
        operands = []
        for name in self._activations(node):
            storage = self.storage[name]
            wanted = layout or self.layout[self.storage[self._activations(node)[0]]]
            op = VectorOp.FROM_D32 if wanted is _Layout.FLAT else VectorOp.TO_D32
            if self.graph.types[name].dtype.is_float:
                storage = self._in_layout(storage, self.graph.types[name], wanted, op)
            operands.append(self._vector_operand(node, operator, storage, name))
        result = layout or (self.layout[operands[0].tensor] if operands else _Layout.FLAT)
        constants = node.inputs[1:] if operator.vector is VectorOp.GATHER else node.inputs
        table = node.inputs[:1] if operator.vector is VectorOp.GATHER else ()
        main, *others = [name for name in node.outputs if name and self.uses[name]] or node.outputs
        total = sum(self.graph.types[name].elements for name in (main, *others))
        self.storage[main] = main
        for other in others:
            self.storage[other] = main
        type_ = self.graph.types[main]
        tensor = self._tensor(main, type_)
        size = total * _element_bytes(type_)
        step = Step(
            name=node.name,
            op=node.op,
            kind=StepKind.VECTOR,
            operands=tuple(operands),
            output=Tensor(main, size, tensor.row_units, tensor.channels),
            shape=type_.shape,
            vector=_vector_work(node, operator, self.graph, total),
            weight_bytes=self._constant_bytes(constants),
            table_bytes=size if table and table[0] in self.graph.constants else 0,
        )
        self._add(step, result)

    def _vector_operand(self, node: Node, operator: Operator, storage: str, name: str) -> Operand:
        if operator.kind is WorkKind.WINDOW:
            shape = self.graph.types[name].shape
            if node.op.startswith("Global") or len(shape) < 3:
                return Operand(storage, Access.HALO, shape[1] * ACTIVATION_BYTES)
            halo = _halo_rows(node, node.ints("kernel_shape", (1, 1)), len(shape))
            return Operand(
                storage, Access.HALO, halo * shape[1] * prod(shape[3:]) * ACTIVATION_BYTES
            )
        if operator.vector in (VectorOp.TRANSPOSE, VectorOp.GATHER):
            return Operand(storage, Access.REMAP)
        if operator.kind is WorkKind.ROWWISE:
            return Operand(storage, Access.CHANNELS)
        return Operand(storage, Access.LOCAL)


PART_MARK = "#"
"""Between a tensor's name and the first sample of a part of it."""


def part_name(name: str, first_sample: int) -> str:
    """The name of a part of a tensor."""
    return f"{name}{PART_MARK}{first_sample}"


def whole_name(name: str) -> str:
    """The name of the tensor that this is a part of, or its own."""
    return name.rpartition(PART_MARK)[0] or name


def steps_of(graph: Graph) -> tuple[Step, ...]:
    """The graph's work as steps in execution order, host borders included."""
    return _Builder(graph).build()


def _operator(node: Node) -> Operator:
    operator = OPERATORS.get((node.domain, node.op))
    if operator is None or operator.kind is WorkKind.FOLD:
        raise UnsupportedError(
            f"node {node.name}: operator {node.domain or 'ai.onnx'}::{node.op} "
            f"(opset {node.opset}) has no device form"
        )
    return operator


def stored_bytes(type_: TensorType) -> int:
    """Bytes of a tensor as the device stores it: floats in fp16, 64-bit integers in 32."""
    return type_.elements * _element_bytes(type_)


def _element_bytes(type_: TensorType) -> int:
    return ACTIVATION_BYTES if type_.dtype.is_float else min(type_.dtype.size_bytes, 4)


def _halo_rows(node: Node, kernel: tuple[int, ...], rank: int) -> int:
    """Input rows beside a core's own that its output rows need: dilated kernel less stride."""
    if not kernel:
        return 0
    spatial = rank - 2
    dilation = node.ints("dilations", (1,) * spatial)[0]
    stride = node.ints("strides", (1,) * spatial)[0]
    return max(0, (kernel[0] - 1) * dilation + 1 - stride)


def _matrix_work(node: Node, graph: Graph) -> MatrixWork:
    out = graph.types[node.outputs[0]].shape
    if node.op in ("Conv", "ConvTranspose"):
        return _conv_work(node, graph, out)
    first = graph.types[node.inputs[0]].shape
    if node.op == "Gemm":
        inner = first[0] if node.int("transA", 0) else first[1]
        return MatrixWork(out[0], inner, out[1], 1, out[0] * inner * out[1])
    if node.op in ("MatMul", "MatMulBias"):
        return _matmul_work(first, graph.types[node.inputs[1]].shape, out)
    return _einsum_work(node, graph)


def _matmul_work(
    first: tuple[int, ...], second: tuple[int, ...], out: tuple[int, ...]
) -> MatrixWork:
    outputs = out[-1] if len(second) > 1 else 1
    macs = prod(out) * first[-1]
    if len(second) <= 2 or len(first) < 2:
        return MatrixWork(max(prod(out) // max(outputs, 1), 1), first[-1], outputs, 1, macs)
    padded = -(-first[-2] // BLOCK) * BLOCK
    return MatrixWork(prod(out[:-2]) * padded, first[-1], outputs, 1, macs)


def _conv_work(node: Node, graph: Graph, out: tuple[int, ...]) -> MatrixWork:
    """Groups narrower than a block share blocks: a depthwise layer fills only the diagonals."""
    weights = graph.types[node.inputs[1]].shape
    groups = node.int("group", 1)
    taps = prod(weights[2:])
    if node.op == "ConvTranspose":
        first = graph.types[node.inputs[0]].shape
        rows = first[0] * prod(first[2:])
        per_group_in, per_group_out = first[1] // groups, weights[1]
    else:
        rows = out[0] * prod(out[2:])
        per_group_in, per_group_out = weights[1], out[1] // groups
    macs = rows * per_group_in * per_group_out * groups * taps
    if groups == 1 and per_group_in <= NARROW and len(weights) == 4:
        return MatrixWork(rows, BLOCK, per_group_out, _narrow_taps(weights), macs)
    if per_group_in >= BLOCK or groups == 1:
        return MatrixWork(rows, per_group_in, per_group_out, taps * groups, macs)
    return MatrixWork(rows, BLOCK, per_group_out * groups, taps, macs, channelwise=True)


def _narrow_taps(weights: tuple[int, ...]) -> int:
    """Blocks per output block of a convolution over few channels, in the depth-4 layout.

    Eight neighbours of four channels fill one block of inputs, so a kernel row of up to eight
    taps is one block.
    """
    return weights[2] * -(-weights[3] * NARROW // BLOCK)


def _einsum_work(node: Node, graph: Graph) -> MatrixWork:
    """A two-operand contraction: letters missing from the result are summed."""
    equation = node.str("equation", "").replace(" ", "")
    left, _, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != 2 or "." in equation or not result:
        raise UnsupportedError(
            f"node {node.name}: Einsum (opset {node.opset}) '{equation}' is not a product of two "
            "explicit operands; rewrite it as MatMul"
        )
    extents: dict[str, int] = {}
    for term, name in zip(terms, node.inputs, strict=True):
        extents.update(zip(term, graph.types[name].shape, strict=True))
    inner = prod(extents[c] for c in extents if c not in result)
    outputs = prod(extents[c] for c in result if c in terms[1] and c not in terms[0])
    rows = prod(extents[c] for c in result) // max(outputs, 1)
    return MatrixWork(rows, inner, outputs, 1, rows * inner * outputs)


def _vector_work(
    node: Node, operator: Operator, graph: Graph, elements: int
) -> tuple[VectorWork, ...]:
    op = operator.vector if operator.vector is not None else VectorOp.COPY
    if operator.kind is WorkKind.ROWWISE:
        elements = graph.types[node.inputs[0]].elements
    if operator.kind is WorkKind.WINDOW and op is VectorOp.POOL:
        elements = _pool_elements(node, graph, elements)
    return (VectorWork(_refined(op, node, graph), elements),)


def _pool_elements(node: Node, graph: Graph, elements: int) -> int:
    if node.op.startswith("Global"):
        return graph.types[node.inputs[0]].elements
    return elements * prod(node.ints("kernel_shape", (1, 1)))


def _refined(op: VectorOp, node: Node, graph: Graph) -> VectorOp:
    """The class of an elementwise operator by what its operands look like."""
    if op not in (VectorOp.ADD, VectorOp.MUL, VectorOp.DIVIDE) or len(node.inputs) < 2:
        return op
    shapes = [graph.types[name].shape for name in node.inputs]
    scalar = [prod(shape) == 1 for shape in shapes]
    if any(scalar):
        return VectorOp.ADD_SPLAT if op is VectorOp.ADD else VectorOp.MUL_SPLAT
    if shapes[0] != shapes[1] and op is VectorOp.ADD:
        return VectorOp.BROADCAST
    return op
