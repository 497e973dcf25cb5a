"""Facts about ONNX's operators that their schemas do not have: one row per operator, or for similar operators.

Facts, conditions, repairs and proofs look operators up here and have no lists of their own. So they all know a new operator
by its row. Rules are referred to by name, because their functions are in the modules that apply them, which import much more
than this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from rewriter.core.record import record

T = TypeVar("T")

SETTLED = 7
"""The first opset that every operator of ONNX Runtime is made for; below, broadcasting and training were attributes."""

BROADCAST_ALL = 8
"""The first opset in which all operators that take several operands broadcast them against each other."""
BROADCAST_LAST = frozenset({"Max", "Mean", "Min", "Sum"})
"""The operators that broadcast from that opset on. The others do since opset 7."""

CASTS_BY_NUMBER = 6
"""From this opset on a Cast names its type by a number."""


@record(frozen=True, slots=True)
class Traits:
    """The properties of an operator, in all its versions.

    Attributes:
        shape: the rule for the shape of its first output: the name of a function in `facts/shape_rules.py`. It is also the key
            to everything else that operators of this form share: their ranks, their repairs, their trials.
        dtype: element type of its outputs: "first" or "second" operand's, "bool", "int64", or an attribute that names it.
            If the attribute is missing, the type is float, or the default in `prose`.
        computes: the functions for its values, if the form does not imply them: a name in `facts/array_functions.py`.
        sizes: operands whose values, not only types, decide how large the outputs are.
        shaping: the same, for operands that may decide no more than a rank.
        indices: the operand that holds places along an axis.
        axes: the operand that holds an axis, or axes.
        words: one or more of `WORDS`.
        prose: attribute to its default in words, if the specification states it in prose only.
    """

    shape: str = ""
    dtype: str = ""
    computes: str = ""
    sizes: tuple[int, ...] = ()
    shaping: tuple[int, ...] = ()
    indices: int | None = None
    axes: int | None = None
    words: str = ""
    prose: Mapping[str, str] = MappingProxyType({})

    @property
    def deciding(self) -> tuple[int, ...]:
        """Operands whose values decide the shapes of the outputs, be it only their ranks."""
        return self.sizes or self.shaping

    def is_data(self, position: int) -> bool:
        """Whether an operand holds neither sizes nor places nor axes."""
        return position not in (*self.deciding, self.indices, self.axes)

    @property
    def rule(self) -> str:
        """The name of its computation."""
        return self.computes or self.shape


WORDS = {
    "elementwise": "each element of the result comes of the element of the first operand at its place",
    "any_size": "it computes the same for every height, width or length",
    "moves": "it moves data and computes nothing",
    "keeps_sign": "its result has no negative value if its data have none; operators that only move data need no entry",
    "pads": "it moves data, and there is more in the result than elements of the first operand",
    "along": "it keeps the length of an axis and computes each element from all of it",
    "flattens": "before opset 13 it took all axes from one on for one",
    "scatters": "its operands are data, places and what is put there",
    "commutative": "its operands are tried in every order",
    "associative": "chains of it, of two operands each, may be grouped as one likes",
    "old_kernel": "ONNX Runtime runs the forms that it had before opset 7",
    "draws": "it returns other values each time",
    "bodies": "what its operands are is followed into graphs of its own, and out of them",
}
"""The meanings of the words of a row."""

_WINDOW = {"pads": "zeros", "strides": "ones", "dilations": "ones"}
_CONVOLUTION = {**_WINDOW, "kernel_shape": "shape of the weight"}
_ALL_AXES = {"axes": "all axes"}
_TYPE_OF_INPUT = {"dtype": "element type of the input"}


def _reduction(computes: str = "", words: str = "") -> Traits:
    return Traits("reduction", "first", computes, shaping=(1,), axes=1, words=words, prose=_ALL_AXES)


_ROWS: tuple[tuple[str, Traits], ...] = (
    # one operand, element by element
    (
        "Acos Acosh Affine Asin Asinh Atan Atanh BitwiseNot Celu Cosh Elu Erf Gelu HardSigmoid HardSwish LeakyRelu Mish"
        " ParametricSoftplus Relu Scale ScaledTanh Selu Shrink Sinh Softplus Softsign Swish Tan ThresholdedRelu",
        Traits("same", "first", words="elementwise"),
    ),
    ("Abs", Traits("same", "first", "abs", words="elementwise")),
    ("Ceil", Traits("same", "first", "ceil", words="elementwise")),
    ("Clip", Traits("same", "first", "clip", words="elementwise")),
    ("Cos", Traits("same", "first", "cos", words="elementwise")),
    ("Exp", Traits("same", "first", "exp", words="elementwise")),
    ("Floor", Traits("same", "first", "floor", words="elementwise keeps_sign")),
    ("Identity", Traits("same", "first", "identity", words="elementwise moves")),
    ("Log", Traits("same", "first", "log", words="elementwise")),
    ("Neg", Traits("same", "first", "negative", words="elementwise")),
    ("Not", Traits("same", "first", "logical_not", words="elementwise")),
    ("Reciprocal", Traits("same", "first", "reciprocal", words="elementwise")),
    ("Round", Traits("same", "first", "round", words="elementwise")),
    ("Sigmoid", Traits("same", "first", "sigmoid", words="elementwise")),
    ("Sign", Traits("same", "first", "sign", words="elementwise")),
    ("Sin", Traits("same", "first", "sin", words="elementwise")),
    ("Sqrt", Traits("same", "first", "sqrt", words="elementwise")),
    ("Tanh", Traits("same", "first", "tanh", words="elementwise")),
    ("IsInf IsNaN", Traits("same", "bool", words="elementwise")),
    ("Cast", Traits("same", "to", "cast", words="elementwise keeps_sign")),
    ("CastLike", Traits("same", "second", "cast", words="elementwise")),
    # one operand that keeps its shape, and more than one element of it for each of the result
    ("BatchNormalization", Traits("same", "first", words="any_size")),
    ("Dropout InstanceNormalization LRN", Traits("same", "first", words="any_size")),
    ("LogSoftmax Softmax", Traits("same", "first", words="any_size along flattens")),
    ("Hardmax", Traits("same", "first", words="along flattens")),
    ("LpNormalization", Traits("same", "first", words="along")),
    ("CumProd", Traits("same", "first", axes=1, words="along")),
    ("CumSum", Traits("same", "first", "running_sum", axes=1, words="along")),
    (
        "GroupNormalization ImageScaler LayerNormalization MeanVarianceNormalization ReverseSequence",
        Traits("same", "first"),
    ),
    ("RMSNormalization", Traits("same")),  # whose scale decides
    ("Trilu", Traits("same", "first", "triangle")),
    ("Scatter", Traits("same", "first", indices=1, words="scatters")),
    ("ScatterElements", Traits("same", "first", indices=1, words="scatters")),
    ("ScatterND", Traits("same", "first", "scatter_nd", indices=1, words="scatters")),
    ("PRelu", Traits("sloped", "first")),
    (
        "DequantizeLinear",
        Traits(computes="dequantize", words="any_size"),
    ),
    ("QuantizeLinear", Traits(words="any_size")),
    # operands that are broadcast against each other
    ("Add", Traits("broadcast", "first", "add", words="commutative associative keeps_sign")),
    ("Sub", Traits("broadcast", "first", "subtract")),
    ("Mul", Traits("broadcast", "first", "multiply", words="commutative associative keeps_sign")),
    ("Div", Traits("broadcast", "first", "divide", words="keeps_sign")),
    ("Mod", Traits("broadcast", "first", "mod", words="keeps_sign")),
    ("Pow", Traits("broadcast", "first", "power")),
    ("Max", Traits("broadcast", "first", "maximum", words="commutative keeps_sign")),
    ("Min", Traits("broadcast", "first", "minimum", words="commutative keeps_sign")),
    ("Mean", Traits("broadcast", "first", words="commutative")),
    ("Sum", Traits("broadcast", "first", "sum", words="commutative keeps_sign")),
    ("BitShift", Traits("broadcast", "first")),
    ("BitwiseAnd BitwiseOr BitwiseXor", Traits("broadcast", "first", words="commutative associative")),
    ("And", Traits("broadcast", "bool", "logical_and", words="commutative associative")),
    ("Or", Traits("broadcast", "bool", "logical_or", words="commutative associative")),
    ("Xor", Traits("broadcast", "bool", "logical_xor", words="commutative associative")),
    ("Equal", Traits("broadcast", "bool", "equal", words="commutative")),
    ("Less", Traits("broadcast", "bool", "less")),
    ("Greater", Traits("broadcast", "bool", "greater")),
    ("LessOrEqual", Traits("broadcast", "bool", "less_equal")),
    ("GreaterOrEqual", Traits("broadcast", "bool", "greater_equal")),
    ("Where", Traits("broadcast", "second", "where")),
    # data that are moved
    ("Reshape", Traits("reshape", "first", sizes=(1,), words="moves old_kernel")),
    ("Flatten", Traits("flatten", "first", words="moves")),
    ("Squeeze", Traits("squeeze", "first", shaping=(1,), axes=1, words="moves", prose={"axes": "axes of length 1"})),
    ("Unsqueeze", Traits("unsqueeze", "first", sizes=(1,), axes=1, words="moves")),
    ("Transpose", Traits("transpose", "first", words="moves", prose={"perm": "axes reversed"})),
    ("Expand", Traits("expand", "first", sizes=(1,), words="moves")),
    ("Tile", Traits("tile", "first", sizes=(1,), words="moves")),
    ("Slice", Traits("slice", "first", sizes=(1, 2, 3, 4), words="moves", prose={"axes": "one for each start"})),
    ("Split", Traits("split", "first", sizes=(1,), words="moves", prose={"split": "equal parts"})),
    ("Gather", Traits("gather", "first", indices=1, words="moves")),
    ("GatherElements", Traits("gather_elements", "first", indices=1, words="moves")),
    ("GatherND", Traits("gather_nd", "first", indices=1, words="moves")),
    ("DepthToSpace", Traits("depth", "first", words="moves")),
    ("SpaceToDepth", Traits("depth", "first", words="moves")),
    ("Concat", Traits("concat", "first", words="moves pads keeps_sign")),
    ("Pad", Traits("pad", "first", sizes=(1, 3), words="moves pads")),
    ("Crop", Traits("crop", "first")),
    ("TopK", Traits("top_k", "first", sizes=(1,), words="along")),
    # windows, images, matrices
    ("Conv", Traits("convolution", "first", prose=_CONVOLUTION)),
    ("ConvInteger", Traits("convolution", prose=_CONVOLUTION)),
    ("QLinearConv DeformConv", Traits(prose=_CONVOLUTION)),
    ("ConvTranspose", Traits("deconvolution", "first", prose={**_CONVOLUTION, "output_padding": "zeros"})),
    ("AveragePool", Traits("pool", "first", prose=_WINDOW)),
    ("LpPool", Traits("pool", "first", prose=_WINDOW)),
    ("MaxPool", Traits("pool", "first", prose=_WINDOW)),
    ("MaxUnpool", Traits(shaping=(2,), prose={"pads": "zeros", "strides": "ones"})),
    ("Col2Im", Traits(shaping=(1, 2), prose=_WINDOW)),
    ("GlobalAveragePool GlobalLpPool GlobalMaxPool", Traits("global_pool", "first")),
    ("Resize", Traits("resize", "first", sizes=(1, 2, 3), prose=_ALL_AXES)),
    ("Upsample", Traits("resize", "first", sizes=(1,))),
    ("CenterCropPad", Traits(shaping=(1,), prose=_ALL_AXES)),
    ("GridSample", Traits(words="any_size")),
    ("RoiAlign", Traits(indices=2)),
    ("AffineGrid", Traits(shaping=(1,))),
    ("MatMul", Traits("matrix_product", "first")),
    ("Gemm", Traits("gemm", "first")),
    ("Einsum", Traits("einsum", "first")),
    ("GRU LSTM RNN", Traits("recurrent")),
    # reductions
    ("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare", _reduction()),
    ("ReduceMax", _reduction("reduce_max")),
    ("ReduceMean", _reduction("reduce_mean")),
    ("ReduceMin", _reduction("reduce_min")),
    ("ReduceProd", _reduction("reduce_prod", "keeps_sign")),
    ("ReduceSum", _reduction("reduce_sum", "keeps_sign")),
    ("ArgMax ArgMin", Traits("arg", "int64")),
    # made of sizes, or of no operand
    ("Shape", Traits("shape", "int64")),
    ("Size", Traits("size", "int64")),
    ("NonZero", Traits(dtype="int64")),
    ("ConstantOfShape", Traits("constant_of_shape", "value", sizes=(0,), prose={"value": "float 0"})),
    ("Range", Traits("range", "first", sizes=(0, 1, 2))),
    (
        "Constant",
        Traits("constant"),
    ),
    ("OneHot", Traits(sizes=(1,), indices=0)),
    ("EyeLike", Traits(dtype="dtype", prose=_TYPE_OF_INPUT)),
    ("Bernoulli RandomNormalLike RandomUniformLike", Traits(words="draws", prose=_TYPE_OF_INPUT)),
    ("Multinomial", Traits(words="draws")),
    ("RandomNormal RandomUniform", Traits(dtype="dtype", words="draws")),
    ("BlackmanWindow HammingWindow HannWindow", Traits(dtype="output_datatype", shaping=(0,))),
    ("SplitToSequence", Traits(shaping=(1,))),
    ("If Loop Scan", Traits(words="bodies")),
    ("DFT", Traits(shaping=(1, 2))),
    ("STFT", Traits(shaping=(1, 3))),
    ("MelWeightMatrix", Traits(dtype="output_datatype", shaping=(0, 1, 2, 3, 4))),
)

TRAITS: Mapping[str, Traits] = {op: traits for ops, traits in _ROWS for op in ops.split()}
"""Operators of ONNX's own domain, and those that ONNX 1.0 to 1.4 called experimental."""

SAME_RANK = frozenset((
    "same", "sloped", "slice", "split", "tile", "pad", "transpose", "depth", "top_k", "convolution", "pool", "global_pool",
    "resize",
))  # fmt: skip
"""Forms whose results have the rank of the first operand."""

_NONE = Traits()


def traits(op: str) -> Traits:
    """The row of an operator; an empty one if it has none."""
    return TRAITS.get(op, _NONE)


def having(word: str) -> frozenset[str]:
    """The operators that have a word of `WORDS` in their rows."""
    return frozenset(op for op, known in TRAITS.items() if word in known.words.split())


def of_form(*forms: str) -> frozenset[str]:
    """The operators of these forms."""
    return frozenset(op for op, known in TRAITS.items() if known.shape in forms)


def of_type(*dtypes: str) -> frozenset[str]:
    """The operators whose results are of an element type that is found in one of these ways."""
    return frozenset(op for op, known in TRAITS.items() if known.dtype in dtypes)


def of_rule(*rules: str) -> frozenset[str]:
    """The operators that compute by these rules."""
    return frozenset(op for op, known in TRAITS.items() if known.rule in rules)


def pick(table: Mapping[str, T], op: str) -> T | None:
    """The entry of a table for an operator, or else for all operators of its form."""
    found = table.get(op)
    return table.get(traits(op).shape) if found is None else found


TYPED = ("to", "dtype", "output_datatype", "output_dtype")
"""Attributes that set the element type of a result."""

FLOAT_WITHOUT = {op: traits(op).dtype for op in of_type("value", *TYPED[1:]) if traits(op).prose is not _TYPE_OF_INPUT}
"""Operators whose result is float if this attribute is not written."""

SPREADING = having("moves") - having("pads")
"""Operators whose results consist of elements of the first operand."""
BODIES = having("bodies")
COMMUTATIVE = having("commutative")
DRAWS = having("draws")
MAY_DRAW = DRAWS | {"Dropout"}
"""Dropout draws in training."""
OLD_KERNELS = having("old_kernel")
