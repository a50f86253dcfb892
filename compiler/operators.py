"""The operators that compile, and what kind of work each becomes on the device.

One table for importer, scheduler and documentation: an operator that is missing here is refused
by the importer, with its node, domain and opset.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from compiler.program import VectorOp


class WorkKind(Enum):
    """How an operator runs.

    MATRIX       on HMX: rows x input channels x output channels
    ELEMENTWISE  on HVX: one result per output element, operands broadcast
    ROWWISE      on HVX: needs a whole row (or channel) of its input at once
    WINDOW       on HVX: a window of the input per output element
    VIEW         free: the same bytes under another shape
    MOVE         moves bytes without arithmetic
    FOLD         has no device form: its result must be known at compile time
    """

    MATRIX = "matrix"
    ELEMENTWISE = "elementwise"
    ROWWISE = "rowwise"
    WINDOW = "window"
    VIEW = "view"
    MOVE = "move"
    FOLD = "fold"


INTERNAL_DOMAIN = "aic"
"""Domain of the operators that only passes make; a model file cannot use it."""

ML_DOMAIN = "ai.onnx.ml"
"""ONNX's domain of classical models."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One supported operator; `vector` is the class of HVX work, `None` where it has none."""

    domain: str
    name: str
    kind: WorkKind
    vector: VectorOp | None = None


def _rows(kind: WorkKind, vector: VectorOp | None, names: str, domain: str = "") -> list[Operator]:
    return [Operator(domain, name, kind, vector) for name in names.split()]


_TABLE = (
    _rows(WorkKind.MATRIX, None, "Conv ConvTranspose MatMul Gemm Einsum")
    + _rows(WorkKind.ELEMENTWISE, VectorOp.ADD, "Add Sub Sum Mean Neg Abs")
    + _rows(WorkKind.ELEMENTWISE, VectorOp.MUL, "Mul")
    + _rows(
        WorkKind.ELEMENTWISE,
        VectorOp.COMPARE,
        "Relu Clip LeakyRelu PRelu ThresholdedRelu Max Min Equal Greater GreaterOrEqual Less "
        "LessOrEqual Where And Or Not Xor Sign Floor Ceil Round HardSigmoid IsNaN IsInf Shrink "
        "BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot",
    )
    + _rows(WorkKind.ELEMENTWISE, VectorOp.DIVIDE, "Div Sqrt Reciprocal Mod")
    + _rows(
        WorkKind.ELEMENTWISE,
        VectorOp.EXPONENTIAL,
        "Exp Log Pow Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh",
    )
    + _rows(WorkKind.ELEMENTWISE, VectorOp.ERF, "Erf Gelu")
    + _rows(
        WorkKind.ELEMENTWISE,
        VectorOp.SIGMOID,
        "Sigmoid Tanh HardSwish Elu Selu Celu Softplus Softsign Mish Swish",
    )
    + _rows(WorkKind.ELEMENTWISE, VectorOp.CONVERT, "Cast CastLike BitCast")
    + _rows(WorkKind.ROWWISE, VectorOp.SOFTMAX, "Softmax LogSoftmax Hardmax")
    + _rows(
        WorkKind.ROWWISE,
        VectorOp.NORMALIZE,
        "LayerNormalization InstanceNormalization GroupNormalization RMSNormalization "
        "BatchNormalization LRN LpNormalization MeanVarianceNormalization",
    )
    + _rows(
        WorkKind.ROWWISE,
        VectorOp.REDUCE,
        "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
        "ReduceLogSumExp ReduceSumSquare ArgMax ArgMin CumSum CumProd TopK Det DFT STFT "
        "TfIdfVectorizer",
    )
    + _rows(
        WorkKind.WINDOW,
        VectorOp.POOL,
        "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool MaxRoiPool",
    )
    + _rows(WorkKind.WINDOW, VectorOp.RESIZE, "Resize Upsample GridSample RoiAlign DeformConv")
    + _rows(
        WorkKind.VIEW,
        None,
        "Identity Dropout Reshape Flatten Squeeze Unsqueeze",
    )
    + _rows(
        WorkKind.MOVE,
        VectorOp.COPY,
        "Concat Slice Split Pad CenterCropPad Expand Tile Trilu ReverseSequence Range",
    )
    + _rows(WorkKind.MOVE, VectorOp.TRANSPOSE, "Transpose SpaceToDepth DepthToSpace")
    + _rows(
        WorkKind.MOVE,
        VectorOp.GATHER,
        "Gather GatherElements GatherND ScatterElements ScatterND Scatter TensorScatter OneHot "
        "Col2Im MaxUnpool",
    )
    + _rows(
        WorkKind.FOLD,
        None,
        "Constant ConstantOfShape Shape Size EyeLike",
    )
    + _rows(WorkKind.MATRIX, None, "ConvInteger MatMulInteger")
    + _rows(WorkKind.ELEMENTWISE, VectorOp.CONVERT, "QuantizeLinear DequantizeLinear")
    + _rows(WorkKind.ROWWISE, VectorOp.REDUCE, "DynamicQuantizeLinear")
    + _rows(WorkKind.ELEMENTWISE, VectorOp.COMPARE, "Binarizer Imputer", ML_DOMAIN)
    + _rows(WorkKind.ELEMENTWISE, VectorOp.MUL, "Scaler", ML_DOMAIN)
    + _rows(WorkKind.ROWWISE, VectorOp.NORMALIZE, "Normalizer", ML_DOMAIN)
    + _rows(WorkKind.ROWWISE, VectorOp.GATHER, "TreeEnsemble TreeEnsembleRegressor", ML_DOMAIN)
    + _rows(WorkKind.MOVE, VectorOp.GATHER, "ArrayFeatureExtractor", ML_DOMAIN)
    # MatMulBias(a, b, bias): MatMul and one value added per column. View(x): the bytes of x under
    # the shape of the result. Silu(x): x * sigmoid(x).
    + _rows(WorkKind.MATRIX, None, "MatMulBias", INTERNAL_DOMAIN)
    + _rows(WorkKind.VIEW, None, "View", INTERNAL_DOMAIN)
    + _rows(WorkKind.ELEMENTWISE, VectorOp.SIGMOID, "Silu", INTERNAL_DOMAIN)
    # As compiler.passes.quantization says.
    + _rows(WorkKind.MATRIX, None, "QuantizedConv QuantizedMatMul", INTERNAL_DOMAIN)
    + _rows(WorkKind.ELEMENTWISE, VectorOp.CONVERT, "Quantize Dequantize", INTERNAL_DOMAIN)
)

OPERATORS: dict[tuple[str, str], Operator] = {(row.domain, row.name): row for row in _TABLE}


def find(domain: str, name: str) -> Operator | None:
    """The table's row for an operator; the default domain is the empty string (or 'ai.onnx')."""
    return OPERATORS.get(("" if domain == "ai.onnx" else domain, name))
