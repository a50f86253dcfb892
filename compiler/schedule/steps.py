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
from typing import NamedTuple

from compiler.errors import UnsupportedError
from compiler.ir.dtypes import DType
from compiler.ir.graph import Constant, Graph, Node, Packed, TensorType
from compiler.operators import OPERATORS, Operator, WorkKind
from compiler.program import VectorOp
from compiler.schedule.extent import Extent, Region
from compiler.schedule.reads import Reads

ACTIVATION_BYTES = 2
"""Bytes of a float element on the device: all float arithmetic runs in fp16."""

BLOCK = 32
"""Channels of one HMX block (qemu-hmx: 32 rows x 32 channels in fp16)."""

NARROW = 4
"""Channels of the device's depth-4 layouts (network descriptor: D4 variants), for images."""

_FREE_AFTER_MATRIX = frozenset({"Relu", "Clip"})
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "QuantizedConv", "ConvInteger"})
_PRODUCTS = frozenset({"MatMul", "MatMulBias", "Gemm", "QuantizedMatMul", "MatMulInteger"})
_NEW_AXES = frozenset({"Transpose", "Gather", "GatherND", "SpaceToDepth", "DepthToSpace", "Tile"})
"""Operators whose output dims do not stand for the same as their input's."""
_FLAT_OPS = frozenset({"Transpose", "Softmax", "LogSoftmax", "Gather", "ArgMax", "TopK", "CumSum"})


@dataclass(frozen=True, slots=True)
class Operand:
    """One activation that a step reads.

    `value` is the graph's name for it, `index` which input of the step's node it is (-1 where the
    step has no node, and reads what lies where its own output does). With `local` a tile of the
    output needs just the same tile of it, so that one may take the other's place.
    """

    tensor: str
    value: str
    index: int
    local: bool


class MatrixWork(NamedTuple):
    """A product as HMX sees it: `rows` x (`inputs` x `repeats`) x `outputs`, for all samples.

    The rows of each matrix of a stack are padded to whole blocks, as the layout has them; `macs`
    counts what the operator asks for, without padding. In a `channelwise` product (depthwise)
    an output channel needs no other input channel than its own block's. With `int8` both operands
    have 8 bits.
    """

    rows: int
    inputs: int
    outputs: int
    repeats: int
    macs: int
    channelwise: bool = False
    int8: bool = False


class VectorWork(NamedTuple):
    """Elements of one class of HVX work, for all samples."""

    op: VectorOp
    elements: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation in memory; a part of one has some of its rows, from `first_row` on."""

    name: str
    size_bytes: int
    extent: Extent
    first_row: int
    end_row: int

    @property
    def row_units(self) -> int:
        """Into how many equal pieces its rows can be cut (samples x lines)."""
        return self.end_row - self.first_row

    @property
    def channels(self) -> int:
        """The extent that a channel split divides."""
        return self.extent.columns

    @property
    def region(self) -> Region:
        """All that it holds."""
        return Region(self.first_row, self.end_row, 0, self.extent.columns)

    def bytes_of(self, region: Region) -> int:
        """Bytes of a region of it, rounded up."""
        return -(-self.size_bytes * region.area // max(1, self.region.area))


def tensor_of(name: str, size_bytes: int, extent: Extent) -> Tensor:
    """A whole tensor."""
    return Tensor(name, size_bytes, extent, 0, extent.rows)


class StepKind(Enum):
    """Where a step's work lies.

    INPUT and OUTPUT are the borders to the host's buffers in DDR, or, with SEND in place of
    OUTPUT, to the next cluster of cores.
    """

    INPUT = "input"
    MATRIX = "matrix"
    VECTOR = "vector"
    OUTPUT = "output"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class Step:
    """One operator's work for the whole batch, unsplit.

    `weight_bytes` are constants that must be in VTCM while the step runs, as the device stores
    them; in DDR they take `packed_bytes` where these are not 0, and are unpacked on a core before
    their first use; `table_bytes` are bytes that it picks out of a constant that stays in DDR;
    `host_bytes` are bytes of the host's buffer that an INPUT reads or an OUTPUT writes.
    `samples` is how many samples of the batch this step is for; `samplewise` says that a sample of
    the output depends on the same sample of each operand only. `nodes` are the graph's nodes that
    it computes, `sources` pairs of a value and the storage that it lies in.
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
    packed_bytes: int = 0
    table_bytes: int = 0
    host_bytes: int = 0
    samples: int = 1
    samplewise: bool = True
    nodes: tuple[Node, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()


class _Layout(Enum):
    D32 = "d32"
    FLAT = "flat"


def _channel_axis(shape: tuple[int, ...]) -> int:
    """The second of four dims or more, else the last; so too where there is but one line.

    What an image network pools to a point keeps its channels: it has nothing behind them.
    """
    lines = len(shape) >= 4 and (shape[2] > 1 or prod(shape[2:]) == 1)
    return 1 if lines else max(len(shape) - 1, 0)


class _Builder:
    """Walks a graph once; keeps storage names, layouts and the steps so far."""

    def __init__(self, graph: Graph, reads: Reads) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self.storage: dict[str, str] = {}
        self.layout: dict[str, _Layout] = {}
        self.tensors: dict[str, Tensor] = {}
        self.uses = Counter(name for node in graph.nodes for name in node.inputs)
        self.uses.update(graph.outputs)
        self.fused: dict[str, Node] = {}
        self.reads = reads

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
                self.fused[source.name] = node
        return frozenset(found)

    def _alias(self, source: str, target: str) -> None:
        self.storage[target] = self.storage[source]

    def _tensor(self, name: str, type_: TensorType, axis: int | None = None) -> Tensor:
        found = _channel_axis(type_.shape) if axis is None else axis
        return tensor_of(name, stored_bytes(type_), Extent(type_.shape, found))

    def _axis(self, node: Node, operands: list[Operand], rank: int) -> int | None:
        """The channel axis that a vector operator hands on; `None` where it makes a new shape."""
        if not operands or node.op in _NEW_AXES:
            return None
        extent = self.tensors[operands[0].tensor].extent
        same = self.graph.types[operands[0].value].shape == extent.shape
        return extent.axis if same and len(extent.shape) == rank else None

    def _add(self, step: Step, layout: _Layout) -> None:
        step = replace(step, samples=self.graph.batch_size)
        self.steps.append(replace(step, samplewise=self.reads.is_samplewise(step, self.tensors)))
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
        extent = self.tensors[source].extent
        step = Step(
            name=f"{name}:host",
            op="Output",
            kind=StepKind.OUTPUT,
            operands=(Operand(source, name, -1, local=True),),
            output=tensor_of(f"{name}:host", 0, extent),
            sources=((name, source),),
            shape=extent.shape,
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
            operands=(Operand(tensor, "", -1, local=True),),
            output=replace(old, name=name),
            shape=old.extent.shape,
            vector=(VectorWork(op, type_.elements),),
            sources=((tensor, tensor),),
        )
        self._add(step, layout)
        return name

    def _constant_bytes(self, names: tuple[str, ...]) -> int:
        constants = [self.graph.constants[n].type for n in names if n in self.graph.constants]
        return sum(stored_bytes(type_) for type_ in constants)

    def _packed_bytes(self, names: tuple[str, ...]) -> int:
        """Bytes in DDR of constants of which at least one is packed; 0: none is."""
        constants = [self.graph.constants[n] for n in names if n in self.graph.constants]
        if not any(isinstance(constant.load, Packed) for constant in constants):
            return 0
        return sum(map(ddr_bytes, constants))

    def _matrix(self, node: Node) -> None:
        first = node.inputs[0]
        second = node.inputs[1] if len(node.inputs) > 1 else ""
        work = _matrix_work(node, self.graph)
        operands = []
        if not self.graph.is_constant(first):
            tensor = self._in_layout(
                self.storage[first], self.graph.types[first], _Layout.D32, VectorOp.TO_D32
            )
            operands.append(Operand(tensor, first, 0, local=False))
        if second and not self.graph.is_constant(second):
            tensor = self._in_layout(
                self.storage[second],
                self.graph.types[second],
                _Layout.D32,
                VectorOp.WEIGHTS_TO_D32,
            )
            operands.append(Operand(tensor, second, 1, local=False))
        for index, name in enumerate(node.inputs[2:], start=2):
            if name and not self.graph.is_constant(name):
                operands.append(Operand(self.storage[name], name, index, local=True))
        out = node.outputs[0]
        follower = self.fused.get(node.name)
        nodes = (node,) if follower is None else (node, follower)
        self.storage[out] = made = nodes[-1].outputs[0]
        axis = 1 if node.op in _CONVOLUTIONS else None
        type_ = self.graph.types[out]
        if node.op in _PRODUCTS and work.outputs > 1 and not operands[1:]:
            axis = len(type_.shape) - 1
        step = Step(
            name=node.name,
            op="+".join(each.op for each in nodes),
            kind=StepKind.MATRIX,
            operands=tuple(operands),
            output=self._tensor(made, type_, axis),
            shape=type_.shape,
            matrix=work,
            weight_bytes=self._constant_bytes(node.inputs),
            packed_bytes=self._packed_bytes(node.inputs),
            nodes=nodes,
            sources=_sources(operands),
        )
        self._add(step, _Layout.D32)

    def _vector(self, node: Node, operator: Operator) -> None:
        """One step for each output that is used: none depends on another."""
        operands = self._vector_operands(node, operator)
        used = [name for name in node.outputs if name and self.uses[name]] or node.outputs[:1]
        layout = _Layout.FLAT if node.op in _FLAT_OPS or not operands else None
        result = layout or self.layout[operands[0].tensor]
        for number, name in enumerate(used):
            self._vector_step(node, operator, operands, name, number)
            self.layout[name] = result

    def _vector_operands(self, node: Node, operator: Operator) -> list[Operand]:
        flat = _Layout.FLAT if node.op in _FLAT_OPS else None
        operands: list[Operand] = []
        for index, name in enumerate(node.inputs):
            if not name or self.graph.is_constant(name):
                continue
            storage = self.storage[name]
            wanted = flat or self.layout[operands[0].tensor if operands else storage]
            op = VectorOp.FROM_D32 if wanted is _Layout.FLAT else VectorOp.TO_D32
            if _is_laid_out(self.graph.types[name].dtype):
                storage = self._in_layout(storage, self.graph.types[name], wanted, op)
            local = operator.kind is WorkKind.ELEMENTWISE
            operands.append(Operand(storage, name, index, local))
        return operands

    def _vector_step(
        self, node: Node, operator: Operator, operands: list[Operand], name: str, number: int
    ) -> None:
        gathers = operator.vector is VectorOp.GATHER
        constants = node.inputs[1:] if gathers else node.inputs
        table = gathers and self.graph.is_constant(node.inputs[0])
        type_ = self.graph.types[name]
        tensor = self._tensor(name, type_, self._axis(node, operands, len(type_.shape)))
        self.storage[name] = name
        step = Step(
            name=node.name if not number else f"{node.name}:{name}",
            op=node.op,
            kind=StepKind.VECTOR,
            operands=tuple(operands),
            output=tensor,
            shape=type_.shape,
            vector=_vector_work(node, operator, self.graph, type_.elements, first=not number),
            weight_bytes=0 if number else self._constant_bytes(constants),
            table_bytes=tensor.size_bytes if table else 0,
            nodes=(node,),
            sources=_sources(operands),
        )
        self._add(step, _Layout.FLAT)


def _is_laid_out(dtype: DType) -> bool:
    """Whether a tensor can be in the block layout: floats, and integers that stand for them."""
    return dtype.is_float or dtype in (DType.INT8, DType.UINT8)


def _sources(operands: list[Operand]) -> tuple[tuple[str, str], ...]:
    return tuple((operand.value, operand.tensor) for operand in operands)


def steps_of(graph: Graph, reads: Reads) -> tuple[Step, ...]:
    """The graph's work as steps in execution order, host borders included."""
    return _Builder(graph, reads).build()


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


def ddr_bytes(constant: Constant) -> int:
    """Bytes of a constant in DDR."""
    load: object = constant.load
    return load.stored_bytes if isinstance(load, Packed) else stored_bytes(constant.type)


def _element_bytes(type_: TensorType) -> int:
    return ACTIVATION_BYTES if type_.dtype.is_float else min(type_.dtype.size_bytes, 4)


def _matrix_work(node: Node, graph: Graph) -> MatrixWork:
    out = graph.types[node.outputs[0]].shape
    if node.op in ("QuantizedConv", "ConvInteger"):
        return _conv_work(node, graph, out)._replace(int8=True)
    if node.op in ("QuantizedMatMul", "MatMulInteger"):
        first, second = (graph.types[name].shape for name in node.inputs[:2])
        return _matmul_work(first, second, out)._replace(int8=True)
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
    node: Node, operator: Operator, graph: Graph, elements: int, *, first: bool
) -> tuple[VectorWork, ...]:
    """The work of one output; what is done once for all of them counts for the first."""
    op = operator.vector if operator.vector is not None else VectorOp.COPY
    if operator.kind is WorkKind.ROWWISE and first:
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
