"""Whether a framework node and the ONNX node made of it have the same attributes, as far as an exporter writes them.

Compared is only what every exporter of MXNet copies. What one of them drops or gets wrong (`fix_gamma`, `exclude`,
`pooling_convention`, `temperature`) is what a symbol file is asked for, and cannot tell two networks apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rewriter.source.literal import NotOfType, Value, parse_as

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs

    from rewriter.source.info import SourceNode

Check = Callable[["SourceNode", "gs.Node"], str | None]

# Names of constants and nodes that end with the place of the operator in the symbol file.
_PLACED = re.compile(
    r"(?:scalar_op|reshape_attr_tensor|square_tensor|reps_attr_tensor|expand_attr_tensor|flatten_|bias)(\d{1,9})"
)


def disagreement(node: SourceNode, made: gs.Node, *, whole: bool = True, version: tuple[int, ...] = ()) -> str:
    """What a framework node says otherwise than an ONNX node made of it; "" where they agree.

    Args:
        node: the framework's.
        made: the ONNX node that makes its result, or, where not `whole`, one of the others.
        version: of the framework that wrote the file, which the exporter's is not before; () where it is unknown.
    """
    checks = [_place, *(_CHECKS if whole else _PARTS).get(node.operator, ())]
    for since, more in _SINCE.items():
        if version >= since:
            checks.extend(more.get(node.operator, ()))
    return next((found for check in checks if (found := check(node, made))), "")


def _place(node: SourceNode, made: gs.Node) -> str | None:
    """Exporters number helpers by the place of the operator, which is another one in another network."""
    for operand in made.inputs:
        found = _PLACED.fullmatch(operand.name)
        if found is not None and node.position >= 0 and int(found[1]) != node.position:
            return f"place {node.position} in the file, in the model {operand.name!r}"
    return None


def _say(attribute: str, told: object, model: object) -> str:
    return f"{attribute} {told}, in the model {model}"


def _told(node: SourceNode, attribute: str, like: Value) -> Any:
    """The value of an attribute, None where the file does not tell it (or says None)."""
    text = node.attributes.get(attribute)
    if text is None:
        return None
    try:
        return parse_as(text, like)
    except NotOfType:
        return None


def _constant(made: gs.Node, at: int) -> np.ndarray[Any, Any] | None:
    """The value of an operand that is a constant."""
    return constant_value(made.inputs[at]) if at < len(made.inputs) else None


def is_constant(node: gs.Node) -> bool:
    """Whether a node does nothing but hold a weight, as other tools write it."""
    return node.op == "Constant" and not node.domain and len(node.outputs) == 1 and "value" in node.attrs


def constant_value(tensor: gs.Tensor) -> np.ndarray[Any, Any] | None:
    """The value of an initializer, or of a Constant node's output; None for what is computed."""
    if tensor.inputs:
        maker = tensor.inputs[0]
        return getattr(maker.attrs["value"], "values", None) if is_constant(maker) else None
    return getattr(tensor, "values", None)


def _numbers(made: gs.Node, attribute: str, at: int | None = None) -> list[Any] | None:
    """An attribute, or the constant operand that it became in later opsets, as a list."""
    found = made.attrs.get(attribute)
    if found is None and at is not None:
        value = _constant(made, at)
        return None if value is None else list(value.flatten().tolist())
    return None if found is None else list(found) if isinstance(found, (list, tuple)) else [found]


def _list(attribute: str, onnx_attribute: str, fill: int | None = None, *, twice: bool = False, at: int | None = None) -> Check:
    """A list of integers; where one side has none, the other has nothing but `fill` (None: is not compared)."""

    def check(node: SourceNode, made: gs.Node) -> str | None:
        told, found = _told(node, attribute, [0]) or None, _numbers(made, onnx_attribute, at)
        told = told + told if told and twice else told
        if told is None or found is None:
            one = told or found
            agree = one is None or fill is None or all(value == fill for value in one)
        else:
            agree = told == found
        return None if agree else _say(attribute, told, found)

    return check


def _axis(attribute: str, onnx_attribute: str, default: int | None, at: int | None = None) -> Check:
    """One integer, which exporters copy as it is."""

    def check(node: SourceNode, made: gs.Node) -> str | None:
        told, found = _told(node, attribute, 0), _numbers(made, onnx_attribute, at)
        told = default if told is None else told
        if told is None or found is None or len(found) != 1:
            return None
        return None if told == found[0] else _say(attribute, told, found[0])

    return check


def _number(attribute: str, onnx_attribute: str, default: float | None, at: int | None = None) -> Check:
    def check(node: SourceNode, made: gs.Node) -> str | None:
        told, found = _told(node, attribute, 0.0), _numbers(made, onnx_attribute, at)
        told = default if told is None else told
        if told is None or not found or _close(told, found[0]):
            return None
        return _say(attribute, told, found[0])

    return check


def _close(told: float, found: float) -> bool:
    return math.isclose(told, found, rel_tol=2e-3, abs_tol=1e-12) or told == found or abs(told) > 60_000 <= abs(found)


def _only(*operators: str) -> Callable[[Check], Check]:
    """The check holds where the result is made by one of these."""

    def narrowed(check: Check) -> Check:
        return lambda node, made: check(node, made) if made.op in operators else None

    return narrowed


def _flag(attribute: str, onnx_attribute: str, *, default: bool = False) -> Check:
    def check(node: SourceNode, made: gs.Node) -> str | None:
        told, found = _told(node, attribute, False), made.attrs.get(onnx_attribute)
        told = default if told is None else told
        return None if found is None or bool(found) == told else _say(attribute, told, bool(found))

    return check


def _written(attribute: str, value: str, onnx_attribute: str, default: str) -> Check:
    """Whether an attribute has a value, for an ONNX attribute that some versions write and others never do."""

    def check(node: SourceNode, made: gs.Node) -> str | None:
        found, told = made.attrs.get(onnx_attribute), node.attributes.get(attribute, default)
        return None if found is None or bool(found) == (told == value) else _say(attribute, told, f"{onnx_attribute} {found}")

    return check


def _weight(attribute: str, at: int, axis: int, factor: str = "") -> Check:
    """A dimension of a weight."""

    def check(node: SourceNode, made: gs.Node) -> str | None:
        told = _told(node, attribute, 0)
        shape = getattr(made.inputs[at], "shape", None) if at < len(made.inputs) else None
        if told is None or not shape or axis >= len(shape) or not isinstance(shape[axis], int):
            return None
        found = shape[axis] * (made.attrs.get(factor, 1) if factor else 1)
        return None if told == found else _say(attribute, told, found)

    return check


def _values(attribute: str, at: int, most: Callable[[Sequence[Any]], bool] = bool) -> Check:
    """A list that became a constant operand."""

    def check(node: SourceNode, made: gs.Node) -> str | None:
        told, found = _told(node, attribute, [0]), _constant(made, at)
        if told is None or found is None or not most(told) or not all(isinstance(value, (int, float)) for value in told):
            return None
        return None if told == found.flatten().tolist() else _say(attribute, told, found.flatten().tolist())

    return check


def _scalar(node: SourceNode, made: gs.Node) -> str | None:
    told = _told(node, "scalar", 0.0)
    for at in range(len(made.inputs)):
        found = _constant(made, at)
        if told is not None and found is not None and found.size == 1 and found.dtype.kind == "f" and made.inputs[at].name:
            return None if _close(told, float(found.flatten()[0])) else _say("scalar", told, float(found.flatten()[0]))
    return None


def _squared(node: SourceNode, made: gs.Node) -> str | None:
    found = _constant(made, 1)
    return None if found is None or (found == 2).all() else _say("power", 2, found.flatten().tolist())


def _padding(node: SourceNode, made: gs.Node) -> str | None:
    told, found = _told(node, "pad_width", [0]), _numbers(made, "pads", 1)
    mode, has = node.attributes.get("mode", "constant"), made.attrs.get("mode", "constant")
    if mode != has:
        return _say("mode", mode, has)
    wanted = None if told is None else told[::2] + told[1::2]
    return None if wanted is None or found is None or wanted == found else _say("pad_width", told, found)


def _parts(node: SourceNode, made: gs.Node) -> str | None:
    told = _told(node, "num_outputs", 0)
    if told is None or made.op != "Split" or len(made.outputs) in (told, 1):
        return None
    return _say("num_outputs", told, len(made.outputs))


def _product(node: SourceNode, made: gs.Node) -> str | None:
    """Whether the helpers that transpose operands are there; 1.9 names those of `_linalg_gemm2` after the operand."""
    if made.op != "MatMul" or len(made.inputs) < 2:
        return None
    told, found = [], []
    for operand, suffix in zip(made.inputs, "ab", strict=False):
        told.append(bool(_told(node, f"transpose_{suffix}", False)))
        names = (f"{node.name}_{suffix}", f"transpose{node.position}_{suffix}")
        found.append(operand.name in names or operand.name.endswith("_transposed"))
    dropped = node.operator == "_linalg_gemm2" and all(told) and not any(found)  # up to 1.8, where both are transposed
    return None if told == found or dropped else _say("transpose_a and transpose_b", told, found)


def _flattened(node: SourceNode, made: gs.Node) -> str | None:
    """Up to 1.8 a FullyConnected always flattens; 1.9 does so where the file says so, and reads no text as False."""
    told = node.attributes.get("flatten")
    if made.op == "Reshape":
        return _say("flatten", told, "it keeps the axes") if told in ("True", "1") else None
    written = bool(made.inputs) and made.inputs[0].name == f"{node.name}_data_flattened" and made.outputs[0].name == node.name
    return _say("flatten", told, "it flattens") if written and told not in ("True", "1") else None


def _scaled(node: SourceNode, made: gs.Node) -> str | None:
    """1.9 multiplies the product where `alpha` is not 1."""
    if made.outputs[0].name != node.name:
        return None
    told = _told(node, "alpha", 0.0)
    told, factor = 1.0 if told is None else told, _constant(made, 1) if made.op == "Mul" else None
    found = 1.0 if made.op == "MatMul" else None if factor is None else float(factor.flatten()[0])
    return None if found is None or _close(told, found) else _say("alpha", told, found)


def _squeezed(node: SourceNode, made: gs.Node) -> str | None:
    told = bool(_told(node, "squeeze_axis", False))
    return None if told == (made.op == "Squeeze") else _say("squeeze_axis", told, made.op == "Squeeze")


def _kept(node: SourceNode, made: gs.Node) -> str | None:
    """`keepdims` of a search along an axis; without one, 1.9 flattens first."""
    return _flag("keepdims", "keepdims")(node, made) if _told(node, "axis", 0) is not None else None


def _cropped(node: SourceNode, made: gs.Node) -> str | None:
    """A window of given size; one like another operand, or in the middle, is not compared."""
    if len(node.inputs) > 1 or _told(node, "center_crop", False):
        return None
    (y, x), (h, w) = _told(node, "offset", [0]) or (0, 0), _told(node, "h_w", [0]) or (0, 0)
    border, starts, ends = made.attrs.get("border"), _constant(made, 1), _constant(made, 2)
    if border is None and starts is not None and ends is not None and starts.size == ends.size == 2:
        border = [*starts[::-1].tolist(), *ends[::-1].tolist()]
    return None if border is None or list(border) == [x, y, x + w, y + h] else _say("offset and h_w", [y, x, h, w], border)


def _named(attribute: str, suffix: str) -> Check:
    """A list that 1.9 keeps in a constant of this name, whatever operator uses it."""

    def check(node: SourceNode, made: gs.Node) -> str | None:
        at = next((at for at, operand in enumerate(made.inputs) if operand.name == f"{node.name}_{suffix}"), None)
        return None if at is None else _values(attribute, at)(node, made)

    return check


def _plain_shape(shape: Sequence[Any]) -> bool:
    return all(isinstance(dim, int) and dim >= -1 for dim in shape)


def _reshaped(node: SourceNode, made: gs.Node) -> str | None:
    return None if _told(node, "reverse", False) else _values("shape", 1, _plain_shape)(node, made)


def _scales(node: SourceNode, made: gs.Node) -> str | None:
    told = _told(node, "scale", 0)
    found = [_constant(made, at) for at in range(1, len(made.inputs))]
    scales = next((value.flatten().tolist() for value in found if value is not None and value.size >= 3), None)
    scales = made.attrs.get("scales", scales)
    return None if told is None or not scales or scales[-1] == told else _say("scale", told, scales[-1])


_WINDOW = (_list("kernel", "kernel_shape"), _list("stride", "strides", 1), _list("pad", "pads", 0, twice=True))
_CONVOLUTION = (*_WINDOW, _list("dilate", "dilations", 1), _axis("num_group", "group", 1))
_POOLED = _only("MaxPool", "AveragePool", "LpPool")
_CEILED = (_written("pooling_convention", "full", "ceil_mode", "valid"),)
_COUNTED = (_written("count_include_pad", "True", "count_include_pad", "True"),)
_REDUCED = _only(*(f"Reduce{name}" for name in ("Max", "Mean", "Min", "Prod", "Sum", "L1", "L2")))
_REDUCTION = (_REDUCED(_list("axis", "axes", at=1)), _REDUCED(_flag("keepdims", "keepdims")))
_SOFTMAX = (_only("Softmax", "LogSoftmax")(_axis("axis", "axis", -1)),)

# Operators that MXNet 1.9 takes apart: what the nodes tell that do not make the result.
_PARTS: dict[str, tuple[Check, ...]] = {
    "FullyConnected": (_only("Gemm")(_weight("num_hidden", 1, 0)),),
    "SliceChannel": (_only("Split")(_parts), _only("Split")(_axis("axis", "axis", 1))),
    "argmax": (_only("ArgMax")(_axis("axis", "axis", None)),),
    "argmin": (_only("ArgMin")(_axis("axis", "axis", None)),),
    "LayerNorm": (_only("ReduceMean")(_list("axis", "axes", at=1)),),
    "_linalg_gemm2": (_product,),
    "log_softmax": (_only("ReduceSum")(_axis("axis", "axes", -1, 1)),),
    "softmax": (_only("ReduceSum")(_axis("axis", "axes", -1, 1)),),
    "tile": (_named("reps", "reps"),),
    "topk": (_only("TopK")(_axis("axis", "axis", -1)), _only("TopK")(_axis("k", "k", None, 1))),
}
_PARTS |= dict.fromkeys(("max", "mean", "min", "prod", "sum", "norm"), (_REDUCED(_list("axis", "axes", at=1)),))

# What exporters write only since a version: 1.3 keeps the axis of every search, and `alpha` is dropped up to 1.8.
_SINCE: dict[tuple[int, ...], dict[str, tuple[Check, ...]]] = {
    (1, 4): {"argmax": (_only("ArgMax")(_kept),), "argmin": (_only("ArgMin")(_kept),)},
    (1, 9): {"_linalg_gemm2": (_scaled,)},
}

_CHECKS: dict[str, tuple[Check, ...]] = {
    "BatchNorm": (_number("eps", "epsilon", 1e-3), _number("momentum", "momentum", 0.9)),
    "Concat": (_axis("dim", "axis", 1),),
    "Convolution": (*_CONVOLUTION, _weight("num_filter", 1, 0)),
    "Crop": (_cropped,),
    "Deconvolution": (*_CONVOLUTION, _list("adj", "output_padding", 0), _weight("num_filter", 1, 1, "group")),
    "Dropout": (_number("p", "ratio", 0.5, 1),),
    "Embedding": (_weight("input_dim", 0, 0), _weight("output_dim", 0, 1)),
    "FullyConnected": (_only("Gemm")(_weight("num_hidden", 1, 0)), _flattened),
    "InstanceNorm": (_number("eps", "epsilon", 1e-3),),
    "L2Normalization": (_axis("axis", "axis", 1),),
    "LRN": (
        _number("alpha", "alpha", 1e-4),
        _number("beta", "beta", 0.75),
        _number("knorm", "bias", None),
        _axis("nsize", "size", None),
    ),
    "LeakyReLU": (_number("slope", "alpha", 0.25),),
    "Pad": (_padding, _number("constant_value", "value", 0.0, 2)),
    "Pooling": (
        *map(_POOLED, _WINDOW),
        *map(_only("MaxPool", "AveragePool"), _CEILED),
        *map(_only("AveragePool"), _COUNTED),
        _axis("p_value", "p", None),
    ),
    "Reshape": (_only("Reshape")(_reshaped),),
    "SliceChannel": (_parts, _axis("axis", "axis", 1), _squeezed),
    "UpSampling": (_scales,),
    "argmax": (_only("ArgMax")(_axis("axis", "axis", None)),),
    "argmin": (_only("ArgMin")(_axis("axis", "axis", None)),),
    "_linalg_gemm2": (_product,),
    "broadcast_to": (_values("shape", 1),),
    "clip": (_number("a_min", "min", None, 1), _number("a_max", "max", None, 2)),
    "depth_to_space": (_axis("block_size", "blocksize", None),),
    "dot": (_product,),
    "expand_dims": (_axis("axis", "axes", None, 1),),
    "hard_sigmoid": (_number("alpha", "alpha", 0.2), _number("beta", "beta", 0.5)),
    "log_softmax": _SOFTMAX,
    "slice_axis": (_axis("axis", "axes", None, 3), _axis("begin", "starts", None, 1), _axis("end", "ends", None, 2)),
    "softmax": _SOFTMAX,
    "space_to_depth": (_axis("block_size", "blocksize", None),),
    "square": (_only("Pow")(_squared),),
    "squeeze": (_list("axis", "axes", at=1),),
    "stack": (_axis("axis", "axis", 0),),
    "take": (_axis("axis", "axis", 0),),
    "tile": (_only("Tile")(_values("reps", 1)),),
    "topk": (_axis("axis", "axis", -1), _axis("k", "k", None, 1)),
    "transpose": (_list("axes", "perm"),),
}
_CHECKS |= dict.fromkeys(("max", "mean", "min", "prod", "sum", "norm"), _REDUCTION)
_CHECKS |= dict.fromkeys((f"_{name}_scalar" for name in ("mul", "plus", "minus", "rminus", "div", "rdiv", "power")), (_scalar,))
