"""Whether a source file belongs to this very model, and not to another network that looks like it."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rewriter.core.framework.source_info import VARIABLE, NotOfType, SourceInfo, SourceNode, Value, parse_as

if TYPE_CHECKING:
    import onnx_graphsurgeon as gs


# Whether a framework node and the ONNX node made of it have the same attributes, as far as an exporter writes them.
#
# Only attributes that every exporter of MXNet copies are compared. A symbol file is needed for the attributes that an exporter
# drops or gets wrong (`fix_gamma`, `exclude`, `pooling_convention`, `temperature`). They cannot distinguish two networks.

Check = Callable[["SourceNode", "gs.Node"], str | None]

# Names of constants and nodes that end with the place of the operator in the symbol file.
_PLACED = re.compile(
    r"(?:scalar_op|reshape_attr_tensor|square_tensor|reps_attr_tensor|expand_attr_tensor|flatten_|bias)(\d{1,9})"
)


def disagreement(node: SourceNode, onnx_node: gs.Node, *, whole: bool = True, version: tuple[int, ...] = ()) -> str:
    """The difference between a framework node and an ONNX node made of it; "" if they agree.

    Args:
        node: the framework's.
        onnx_node: the ONNX node that makes its result or, if not `whole`, one of the others.
        version: of the framework that wrote the file, and the exporter's is not older; () if it is unknown.
    """
    checks = [_place, *_PARTS.get(node.operator, ()), *(_CHECKS.get(node.operator, ()) if whole else ())]
    for since, more in _SINCE.items():
        if version >= since:
            checks.extend(more.get(node.operator, ()))
    return next((found for check in checks if (found := check(node, onnx_node))), "")


def _place(node: SourceNode, onnx_node: gs.Node) -> str | None:
    """Exporters number helpers by the place of the operator, which is another one in another network."""
    for operand in onnx_node.inputs:
        found = _PLACED.fullmatch(operand.name)
        if found is not None and node.position >= 0 and int(found[1]) != node.position:
            return f"place {node.position} in the file, in the model {operand.name!r}"
    return None


def _say(attribute: str, file_value: object, model: object) -> str:
    return f"{attribute} {file_value}, in the model {model}"


def _file_value(node: SourceNode, attribute: str, like: Value) -> Any:
    """The value of an attribute, None if the file does not have it (or says None)."""
    text = node.attributes.get(attribute)
    if text is None:
        return None
    try:
        return parse_as(text, like)
    except NotOfType:
        return None


def _constant(onnx_node: gs.Node, at: int) -> np.ndarray[Any, Any] | None:
    """The value of an operand that is a constant."""
    return constant_value(onnx_node.inputs[at]) if at < len(onnx_node.inputs) else None


def is_constant(node: gs.Node) -> bool:
    """Whether a node only holds a weight, as other tools write it."""
    return node.op == "Constant" and not node.domain and len(node.outputs) == 1 and "value" in node.attrs


def constant_value(tensor: gs.Tensor) -> np.ndarray[Any, Any] | None:
    """The value of an initializer, or of a Constant node's output; None for computed values."""
    if tensor.inputs:
        maker = tensor.inputs[0]
        return getattr(maker.attrs["value"], "values", None) if is_constant(maker) else None
    return getattr(tensor, "values", None)


def _numbers(onnx_node: gs.Node, attribute: str, at: int | None = None) -> list[Any] | None:
    """An attribute, or the constant operand that it became in later opsets, as a list."""
    found = onnx_node.attrs.get(attribute)
    if found is None and at is not None:
        value = _constant(onnx_node, at)
        return None if value is None else list(value.flatten().tolist())
    return None if found is None else list(found) if isinstance(found, (list, tuple)) else [found]


def _list(attribute: str, onnx_attribute: str, fill: int | None = None, *, twice: bool = False, at: int | None = None) -> Check:
    """A list of integers; if one side has none, the other has only `fill` (None: not compared)."""

    def check(node: SourceNode, onnx_node: gs.Node) -> str | None:
        file_value, found = _file_value(node, attribute, [0]) or None, _numbers(onnx_node, onnx_attribute, at)
        file_value = file_value + file_value if file_value and twice else file_value
        if file_value is None or found is None:
            one = file_value or found
            agree = one is None or fill is None or all(value == fill for value in one)
        else:
            agree = file_value == found
        return None if agree else _say(attribute, file_value, found)

    return check


def _number(attribute: str, onnx_attribute: str, default: float | None, at: int | None = None) -> Check:
    """One number."""
    return _single(attribute, onnx_attribute, default, at, 0.0)


def _axis(attribute: str, onnx_attribute: str, default: int | None, at: int | None = None) -> Check:
    """One integer, which exporters copy as it is."""
    return _single(attribute, onnx_attribute, default, at, 0)


def _single(attribute: str, onnx_attribute: str, default: float | None, at: int | None, like: float) -> Check:
    """An integer or, by its type, a number that an exporter may have rounded; compared only if it is a single one."""
    agree = operator.eq if isinstance(like, int) else _close

    def check(node: SourceNode, onnx_node: gs.Node) -> str | None:
        file_value, found = _file_value(node, attribute, like), _numbers(onnx_node, onnx_attribute, at)
        file_value = default if file_value is None else file_value
        if file_value is None or found is None or len(found) != 1 or agree(file_value, found[0]):
            return None
        return _say(attribute, file_value, found[0])

    return check


def _close(file_value: float, found: float) -> bool:
    return (
        math.isclose(file_value, found, rel_tol=2e-3, abs_tol=1e-12)
        or file_value == found
        or abs(file_value) > 60_000 <= abs(found)
    )


def _only(*operators: str) -> Callable[[Check], Check]:
    """The check applies if the result is made by one of these."""

    def narrowed(check: Check) -> Check:
        return lambda node, onnx_node: check(node, onnx_node) if onnx_node.op in operators else None

    return narrowed


def _flag(attribute: str, onnx_attribute: str) -> Check:
    def check(node: SourceNode, onnx_node: gs.Node) -> str | None:
        file_value, found = bool(_file_value(node, attribute, False)), onnx_node.attrs.get(onnx_attribute)
        return None if found is None or bool(found) == file_value else _say(attribute, file_value, bool(found))

    return check


def _written(attribute: str, value: str, onnx_attribute: str, default: str) -> Check:
    """Whether an attribute has a value, for an ONNX attribute that some versions write and others never do."""

    def check(node: SourceNode, onnx_node: gs.Node) -> str | None:
        found, file_value = onnx_node.attrs.get(onnx_attribute), node.attributes.get(attribute, default)
        return (
            None
            if found is None or bool(found) == (file_value == value)
            else _say(attribute, file_value, f"{onnx_attribute} {found}")
        )

    return check


def _weight(attribute: str, at: int, axis: int, factor: str = "") -> Check:
    """A dimension of a weight."""

    def check(node: SourceNode, onnx_node: gs.Node) -> str | None:
        file_value = _file_value(node, attribute, 0)
        shape = getattr(onnx_node.inputs[at], "shape", None) if at < len(onnx_node.inputs) else None
        if file_value is None or not shape or axis >= len(shape) or not isinstance(shape[axis], int):
            return None
        found = shape[axis] * (onnx_node.attrs.get(factor, 1) if factor else 1)
        return None if file_value == found else _say(attribute, file_value, found)

    return check


def _values(attribute: str, at: int, most: Callable[[Sequence[Any]], bool] = bool) -> Check:
    """A list that became a constant operand."""

    def check(node: SourceNode, onnx_node: gs.Node) -> str | None:
        file_value, found = _file_value(node, attribute, [0]), _constant(onnx_node, at)
        if (
            file_value is None
            or found is None
            or not most(file_value)
            or not all(isinstance(value, (int, float)) for value in file_value)
        ):
            return None
        return None if file_value == found.flatten().tolist() else _say(attribute, file_value, found.flatten().tolist())

    return check


def _scalar(node: SourceNode, onnx_node: gs.Node) -> str | None:
    file_value = _file_value(node, "scalar", 0.0)
    for at in range(len(onnx_node.inputs)):
        found = _constant(onnx_node, at)
        if (
            file_value is not None
            and found is not None
            and found.size == 1
            and found.dtype.kind == "f"
            and onnx_node.inputs[at].name
        ):
            return (
                None if _close(file_value, float(found.flatten()[0])) else _say("scalar", file_value, float(found.flatten()[0]))
            )
    return None


def _squared(node: SourceNode, onnx_node: gs.Node) -> str | None:
    found = _constant(onnx_node, 1)
    return None if found is None or (found == 2).all() else _say("power", 2, found.flatten().tolist())


def _padding(node: SourceNode, onnx_node: gs.Node) -> str | None:
    file_value, found = _file_value(node, "pad_width", [0]), _numbers(onnx_node, "pads", 1)
    mode, has = node.attributes.get("mode", "constant"), onnx_node.attrs.get("mode", "constant")
    if mode != has:
        return _say("mode", mode, has)
    wanted = None if file_value is None else file_value[::2] + file_value[1::2]
    return None if wanted is None or found is None or wanted == found else _say("pad_width", file_value, found)


def _parts(node: SourceNode, onnx_node: gs.Node) -> str | None:
    file_value = _file_value(node, "num_outputs", 0)
    if file_value is None or onnx_node.op != "Split" or len(onnx_node.outputs) in (file_value, 1):
        return None
    return _say("num_outputs", file_value, len(onnx_node.outputs))


def _product(node: SourceNode, onnx_node: gs.Node) -> str | None:
    """Whether the helpers that transpose operands are there; 1.9 names the helpers of `_linalg_gemm2` after the operand."""
    if onnx_node.op != "MatMul" or len(onnx_node.inputs) < 2:
        return None
    file_flags, found = [], []
    for operand, suffix in zip(onnx_node.inputs, "ab", strict=False):
        file_flags.append(bool(_file_value(node, f"transpose_{suffix}", False)))
        names = (f"{node.name}_{suffix}", f"transpose{node.position}_{suffix}")
        found.append(operand.name in names or operand.name.endswith("_transposed"))
    dropped = node.operator == "_linalg_gemm2" and all(file_flags) and not any(found)  # up to 1.8, where both are transposed
    return None if file_flags == found or dropped else _say("transpose_a and transpose_b", file_flags, found)


def _flattened(node: SourceNode, onnx_node: gs.Node) -> str | None:
    """Up to 1.8 a FullyConnected always flattens; 1.9 does so if the file says so, and reads no text as False."""
    file_value = node.attributes.get("flatten")
    if onnx_node.op == "Reshape":
        return _say("flatten", file_value, "it keeps the axes") if file_value in ("True", "1") else None
    written = (
        bool(onnx_node.inputs)
        and onnx_node.inputs[0].name == f"{node.name}_data_flattened"
        and onnx_node.outputs[0].name == node.name
    )
    return _say("flatten", file_value, "it flattens") if written and file_value not in ("True", "1") else None


def _scaled(node: SourceNode, onnx_node: gs.Node) -> str | None:
    """1.9 multiplies the product if `alpha` is not 1."""
    if onnx_node.outputs[0].name != node.name:
        return None
    file_value = _file_value(node, "alpha", 0.0)
    file_value, factor = 1.0 if file_value is None else file_value, _constant(onnx_node, 1) if onnx_node.op == "Mul" else None
    found = 1.0 if onnx_node.op == "MatMul" else None if factor is None else float(factor.flatten()[0])
    return None if found is None or _close(file_value, found) else _say("alpha", file_value, found)


def _squeezed(node: SourceNode, onnx_node: gs.Node) -> str | None:
    file_value = bool(_file_value(node, "squeeze_axis", False))
    return None if file_value == (onnx_node.op == "Squeeze") else _say("squeeze_axis", file_value, onnx_node.op == "Squeeze")


def _kept(node: SourceNode, onnx_node: gs.Node) -> str | None:
    """`keepdims` of a search along an axis; without one, 1.9 flattens first."""
    return _flag("keepdims", "keepdims")(node, onnx_node) if _file_value(node, "axis", 0) is not None else None


def _cropped(node: SourceNode, onnx_node: gs.Node) -> str | None:
    """A window of a specified size; a window like another operand, or in the middle, is not compared."""
    if len(node.inputs) > 1 or _file_value(node, "center_crop", False):
        return None
    (y, x), (h, w) = _file_value(node, "offset", [0]) or (0, 0), _file_value(node, "h_w", [0]) or (0, 0)
    border, starts, ends = onnx_node.attrs.get("border"), _constant(onnx_node, 1), _constant(onnx_node, 2)
    if border is None and starts is not None and ends is not None and starts.size == ends.size == 2:
        border = [*starts[::-1].tolist(), *ends[::-1].tolist()]
    return None if border is None or list(border) == [x, y, x + w, y + h] else _say("offset and h_w", [y, x, h, w], border)


def _named(attribute: str, suffix: str) -> Check:
    """A list that 1.9 keeps in a constant of this name, for any operator."""

    def check(node: SourceNode, onnx_node: gs.Node) -> str | None:
        at = next((at for at, operand in enumerate(onnx_node.inputs) if operand.name == f"{node.name}_{suffix}"), None)
        return None if at is None else _values(attribute, at)(node, onnx_node)

    return check


def _plain_shape(shape: Sequence[Any]) -> bool:
    return all(isinstance(dim, int) and dim >= -1 for dim in shape)


def _reshaped(node: SourceNode, onnx_node: gs.Node) -> str | None:
    return None if _file_value(node, "reverse", False) else _values("shape", 1, _plain_shape)(node, onnx_node)


def _scales(node: SourceNode, onnx_node: gs.Node) -> str | None:
    file_value = _file_value(node, "scale", 0)
    found = [_constant(onnx_node, at) for at in range(1, len(onnx_node.inputs))]
    scales = next((value.flatten().tolist() for value in found if value is not None and value.size >= 3), None)
    scales = onnx_node.attrs.get("scales", scales)
    return None if file_value is None or not scales or scales[-1] == file_value else _say("scale", file_value, scales[-1])


_OUTPUTS = ("LogisticRegression", "LinearRegression", "MAERegression", "SVM", "Softmax")
_LOSSES = frozenset(("Softmax", "MakeLoss", *(f"{name}Output" for name in _OUTPUTS)))
_SCALAR = frozenset(f"_{name}_scalar" for name in ("mul", "plus", "minus", "rminus", "div", "rdiv", "power"))

_WINDOW = (_list("kernel", "kernel_shape"), _list("stride", "strides", 1), _list("pad", "pads", 0, twice=True))
_CONVOLUTION = (*_WINDOW, _list("dilate", "dilations", 1), _axis("num_group", "group", 1))
_POOLED = _only("MaxPool", "AveragePool", "LpPool")
_CEILED = (_written("pooling_convention", "full", "ceil_mode", "valid"),)
_COUNTED = (_written("count_include_pad", "True", "count_include_pad", "True"),)
_REDUCED = _only(*(f"Reduce{name}" for name in ("Max", "Mean", "Min", "Prod", "Sum", "L1", "L2")))
_SOFTMAX = (_only("Softmax", "LogSoftmax")(_axis("axis", "axis", -1)),)

# Checks of any node that an operator became: MXNet 1.9 splits many operators.
_PARTS: dict[str, tuple[Check, ...]] = {
    "FullyConnected": (_only("Gemm")(_weight("num_hidden", 1, 0)),),
    "SliceChannel": (_parts, _only("Split")(_axis("axis", "axis", 1))),
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

# Attributes that exporters write only since a version: 1.3 keeps the axis of every search, and `alpha` is dropped up to 1.8.
_SINCE: dict[tuple[int, ...], dict[str, tuple[Check, ...]]] = {
    (1, 4): {"argmax": (_only("ArgMax")(_kept),), "argmin": (_only("ArgMin")(_kept),)},
    (1, 9): {"_linalg_gemm2": (_scaled,)},
}

# Additional checks of the node that makes the result.
_CHECKS: dict[str, tuple[Check, ...]] = {
    "BatchNorm": (_number("eps", "epsilon", 1e-3), _number("momentum", "momentum", 0.9)),
    "Concat": (_axis("dim", "axis", 1),),
    "Convolution": (*_CONVOLUTION, _weight("num_filter", 1, 0)),
    "Crop": (_cropped,),
    "Deconvolution": (*_CONVOLUTION, _list("adj", "output_padding", 0), _weight("num_filter", 1, 1, "group")),
    "Dropout": (_number("p", "ratio", 0.5, 1),),
    "Embedding": (_weight("input_dim", 0, 0), _weight("output_dim", 0, 1)),
    "FullyConnected": (_flattened,),
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
    "SliceChannel": (_squeezed,),
    "UpSampling": (_scales,),
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
    "transpose": (_list("axes", "perm"),),
}
_CHECKS |= dict.fromkeys(("max", "mean", "min", "prod", "sum", "norm"), (_REDUCED(_flag("keepdims", "keepdims")),))
_CHECKS |= dict.fromkeys(_SCALAR, (_scalar,))


Edge = tuple[str, int | None]  # a node of the file and its output; None if the output cannot be determined from the model

# Helpers of MXNet up to 1.8 that are named by the place of the operator, not after it.
_PLACED_NAME = re.compile(r"flatten_\d+|transpose\d+_[ab]")
# Helpers of MXNet 1.9 that are named after the operand and belong to the operator that reads it (linalg_gemm2).
_NEXT = ("_shape", "_data_8_dim")
# Operators of MXNet with the same operands as the ONNX operator, in the same order.
_ORDERED = """
Convolution Deconvolution BatchNorm InstanceNorm FullyConnected LeakyReLU LRN Concat add_n dot elemwise_add elemwise_sub
elemwise_mul elemwise_div broadcast_add broadcast_sub broadcast_mul broadcast_div broadcast_power _power _maximum _minimum
broadcast_equal broadcast_greater broadcast_lesser broadcast_logical_and broadcast_logical_or broadcast_logical_xor
"""
_PLAIN = frozenset(_ORDERED.split())


def objection(info: SourceInfo, graph: gs.Graph) -> str:
    """Why a source file does not belong to a model, in one line without the file's name; "" if it does."""
    joined = _Join(info, graph)
    if info.framework != "mxnet":
        absent = next((name for name in info.nodes if name not in joined.parts), None)
        return "" if absent is None else f"{absent!r} is not in the model"
    return next(_objections(joined), "")


class _Join:
    """A model next to its source file.

    Attributes:
        parts: the ONNX nodes made from a framework node, by its name.
        made: the nodes of the model by the names of their outputs; `constants` and `inputs` are the tensors that no node makes.
        operators: the nodes of the file that are not variables.
        folded: names of the constants that scalar operators on a weight became, with those operators.
        beside: nodes of the model without a counterpart in the file.
    """

    def __init__(self, info: SourceInfo, graph: gs.Graph) -> None:
        self.info = info
        self.graph = graph
        self.parts: dict[str, list[gs.Node]] = {}
        self.makers: dict[str, gs.Node] = {}
        self.owner: dict[int, str] = {}
        self.beside: list[gs.Node] = []
        self.outputs = [tensor.name for tensor in graph.outputs]
        self.inputs = {tensor.name: tensor for tensor in graph.inputs}
        for node in graph.nodes:
            key = info.node_for(node.name, [tensor.name for tensor in node.outputs])
            if is_constant(node) and (key is None or _is_variable(info, node.outputs[0].name)):
                continue  # a weight, even if 1.9 could have named a helper so
            self.makers.update((tensor.name, node) for tensor in node.outputs)
            if key is None:
                self.beside.append(node)
            else:
                self.owner[id(node)] = key
                self.parts.setdefault(key, []).append(node)
        self.constants = {tensor.name: tensor for tensor in _constants(graph)}
        self.folded = dict(self._folded())
        self._behind: dict[str, frozenset[Edge]] = {}
        self.operators = dict(_operators(info))

    def _folded(self) -> Iterator[tuple[str, str]]:
        """A scalar operator on a weight is no node: its result is a constant, named after the weight and the place."""
        for key, node in self.info.nodes.items():
            if node.operator in _SCALAR and key not in self.parts and node.inputs:
                for name in (key, f"{node.inputs[0][0]}{node.position}"):
                    if name in self.constants:
                        yield name, key

    def finals(self, key: str) -> dict[str, int]:
        """The tensors of the model that are outputs of a framework node, with their numbers."""
        if key in self.makers:
            several = self.info.output_count(key) > 1
            return {key: 0} | (dict(self._numbered(key)) if several else {})
        return dict(self._numbered(key)) or {name: 0 for name, of in self.folded.items() if of == key}

    def _numbered(self, key: str) -> Iterator[tuple[str, int]]:
        for node in self.parts.get(key, ()):
            for tensor in node.outputs:
                if found := re.fullmatch(re.escape(key) + r"(?:_output)?(\d{1,9})", tensor.name):
                    yield tensor.name, int(found[1])

    def mains(self, key: str) -> list[gs.Node]:
        """The nodes that make the outputs of a framework node."""
        finals = self.finals(key)
        return [self._worker(key, node) for node in self.parts.get(key, ()) if any(t.name in finals for t in node.outputs)]

    def _worker(self, key: str, node: gs.Node) -> gs.Node:
        """The maker of the operand of an Identity or Cast that another tool put at the end of a framework node."""
        while (node.op == "Identity" or _is_cast_to_float(node)) and len(node.inputs) == 1:
            maker = self.makers.get(node.inputs[0].name)
            if maker is None or maker is node or self.owner.get(id(maker)) != key:
                break
            node = maker
        return node

    def behind(self, name: str) -> frozenset[Edge]:
        """The outputs of framework nodes that a tensor comes from, seen through nodes without a counterpart in the file."""
        if name not in self._behind:
            self._behind[name] = frozenset(self._sources(name))
        return self._behind[name]

    def _sources(self, name: str) -> Iterator[Edge]:
        waiting, seen = [name], {name}
        while waiting:
            tensor = waiting.pop()
            node = self.makers.get(tensor)
            if node is not None and id(node) not in self.owner:
                more = {operand.name for operand in node.inputs if operand.name} - seen
                seen |= more
                waiting.extend(more)
            elif (edge := self._edge(tensor, node)) is not None:
                yield edge

    def _edge(self, tensor: str, node: gs.Node | None) -> Edge | None:
        if node is not None:
            key = self.owner[id(node)]
            unparted = tensor == key and len(node.outputs) == 1 < self.info.output_count(key)  # 1.3 writes one output of many
            return key, None if unparted else self.finals(key).get(tensor)
        if tensor in self.folded:
            return self.folded[tensor], 0
        known = self.info.nodes.get(tensor)
        if known is None:
            return None
        return tensor, 0 if known.operator == VARIABLE else None  # up to 1.8, a tensor without a maker represents a node


def _operators(info: SourceInfo) -> Iterator[tuple[str, SourceNode]]:
    """Each operator once; operators that share a name in a file also have names by their place."""
    seen: set[int] = set()
    for key, node in info.nodes.items():
        if node.operator != VARIABLE and id(node) not in seen:
            seen.add(id(node))
            yield key, node


def _constants(graph: gs.Graph) -> Iterator[gs.Tensor]:
    from onnx_graphsurgeon import Constant  # the class decides, since access to the values would read them

    yield from (tensor for tensor in vars(graph).get("initializers", ()))
    yield from (node.outputs[0] for node in graph.nodes if is_constant(node))
    yield from (tensor for node in graph.nodes for tensor in node.inputs if isinstance(tensor, Constant) and not tensor.inputs)


def _is_variable(info: SourceInfo, name: str) -> bool:
    known = info.nodes.get(name)
    return known is not None and known.operator == VARIABLE


def _objections(joined: _Join) -> Iterator[str]:
    yield from _of_variables(joined)
    yield from _of_operators(joined)
    yield from _of_the_rest(joined)
    yield from _of_outputs(joined)
    for key, node in joined.operators.items():
        if key in joined.parts:
            yield from _of_edges(joined, key, node)
        mains = joined.mains(key)
        for part in joined.parts.get(key, ()):
            if found := disagreement(node, part, whole=part in mains, version=joined.info.release):
                yield f"{key!r} is {node.operator} with {found}"


def _of_variables(joined: _Join) -> Iterator[str]:
    info = joined.info
    used = {source for node in info.nodes.values() for source, _ in _operands(node)} | {name for name, _ in info.heads}
    for name, node in info.nodes.items():  # in their order: the first one is reported
        if name in used and node.operator == VARIABLE and name not in joined.inputs and name not in joined.constants:
            yield f"the variable {name!r} is not in the model"
    for name, tensor in joined.inputs.items():
        known = info.nodes.get(name)
        if known is None or known.operator != VARIABLE:
            yield f"the input {name!r} of the model is not in the file"
        elif found := _other_shape(known, tensor.shape):
            yield found
    for name, constant in joined.constants.items():
        known = info.nodes.get(name)
        if known is not None and (found := _other_shape(known, constant.shape)):
            yield found


def _other_shape(variable: SourceNode, shape: Sequence[int | str | None] | None) -> str:
    from rewriter.core.framework.source_info import parse_literal

    file_shape = parse_literal(variable.attributes.get("__shape__", ""))
    if not isinstance(file_shape, list) or shape is None or not file_shape:
        return ""
    pairs = zip(file_shape, shape, strict=False)
    if len(file_shape) != len(shape) or any(isinstance(b, int) and a not in (0, -1, b) and b > 0 for a, b in pairs):
        return f"the variable {variable.name!r} has the shape {file_shape}, in the model {list(shape)}"
    return ""


def _of_operators(joined: _Join) -> Iterator[str]:
    """Each operator is there, and makes its result itself: exporters name after it the nodes that prepare its operands. Nodes
    that use its result were added by a person, who may have repaired it in this way.
    """
    from rewriter.core.framework.exports import HELPERS, exported_to

    folded = set(joined.folded.values())
    for key, node in joined.operators.items():
        if key in folded:
            continue
        mains, finals = joined.mains(key), joined.finals(key)
        if not mains:
            yield f"{node.operator} {key!r} is not in the model"
        fitting = exported_to(node)
        for part in joined.parts.get(key, ()):
            is_main = part in mains
            after = not is_main and any(tensor.name in finals for tensor in part.inputs)
            if after and not any(tensor.name.endswith(_NEXT) for tensor in part.outputs):
                yield f"{part.op} {part.name or part.outputs[0].name!r} of the model is not in the file"
            if fitting and part.op not in fitting and (is_main or part.op not in HELPERS):
                yield f"{key!r} is {_called(node)}, in the model {part.op}"


def _called(node: SourceNode) -> str:
    """ "Activation (relu)"."""
    kind = node.attributes.get("act_type") or node.attributes.get("pool_type")
    return f"{node.operator} ({kind})" if kind else node.operator


def _of_the_rest(joined: _Join) -> Iterator[str]:
    for node in joined.beside:
        output = next((tensor.name for tensor in node.outputs), "")
        if node.op != "Identity" and not _is_cast_to_float(node) and not _is_helper(joined, output):
            yield f"{node.op} {node.name or output!r} of the model is not in the file"


def _is_cast_to_float(node: gs.Node) -> bool:
    """Whether a node is one of those that converters to float16 put around the nodes of a model."""
    return node.op == "Cast" and node.attrs.get("to") in (1, 10)


def _is_helper(joined: _Join, output: str) -> bool:
    """Whether a node that no operator of the file is named after is one that MXNet adds: 1.9 names some after a variable."""
    if _PLACED_NAME.fullmatch(output):
        return True
    stem = output
    while (cut := stem.rfind("_")) > 0:
        stem = stem[:cut]
        if _is_variable(joined.info, stem):
            return True
    return False


def _of_outputs(joined: _Join) -> Iterator[str]:
    """Checks that the outputs are the heads, in the order of the file or of the operators; exporters use the latter order."""
    heads = joined.info.heads
    if not heads:
        return
    listed = joined.outputs
    last = next(reversed(joined.operators), "")
    only_last = _lists_the_last(joined, last)
    expected: list[str] = []
    for key, number in heads:
        tensors = [name for name, at in joined.finals(key).items() if at == number] or [key] * (key in joined.inputs)
        if shared := re.fullmatch(r"idx_\d+_(.+)", key):  # 1.9 outputs the first of two nodes of one name
            tensors += [shared[1]] * (shared[1] in joined.makers)
        if not tensors:
            yield f"output {number} of {key!r} is not in the model"
        if not set(tensors) & set(listed) and not only_last:
            yield f"{key!r} is an output of the file and not of the model"
        expected += tensors
    for name in listed:
        if name not in expected and not only_last:
            yield f"{name!r} is an output of the model and not of the file"
    order = {key: place for place, key in enumerate(joined.operators)}
    places = [order.get(joined.owner.get(id(joined.makers.get(name)), ""), len(order)) for name in listed]
    if not only_last and places != sorted(places) and [name for name in expected if name in listed] != listed:
        yield "the outputs of the model are in another order"


def _lists_the_last(joined: _Join, last: str) -> bool:
    """Whether the outputs are those of MXNet 1.3: all nodes that the last operator became, without the other heads."""
    if joined.info.release >= (1, 4):
        return False
    output_names = {tensor.name for node in joined.parts.get(last, ()) for tensor in node.outputs}
    others = set(joined.outputs) - output_names
    return bool(output_names) and output_names <= set(joined.outputs) and all(map(_PLACED_NAME.fullmatch, others))


def _operands(node: SourceNode) -> tuple[tuple[str, int], ...]:
    """The edges that an exporter follows: not the label of a loss."""
    return node.inputs[:1] if node.operator in _LOSSES else node.inputs


def _of_edges(joined: _Join, key: str, node: SourceNode) -> Iterator[str]:
    wanted = _operands(node)
    found: set[Edge] = set()
    for part in joined.parts[key]:
        for operand in part.inputs:
            if operand.name:
                found |= {edge for edge in joined.behind(operand.name) if edge[0] != key}
    for source, number in wanted:
        if source not in joined.info.nodes or not _has(found, source, number):
            yield f"{source!r} is an operand of {key!r} in the file and not in the model"
    for source, at in found:
        if not any(source == name and at in (None, index) for name, index in wanted):
            yield f"{source!r} is an operand of {key!r} in the model and not in the file"
    for main in joined.mains(key):
        yield from _of_order(joined, key, main, [source for source, _ in wanted])


def _has(found: set[Edge], source: str, number: int) -> bool:
    return (source, number) in found or (source, None) in found


def _of_order(joined: _Join, key: str, main: gs.Node, wanted: list[str]) -> Iterator[str]:
    if joined.info.nodes[key].operator not in _PLAIN:
        return
    order: list[str] = []
    for at, operand in enumerate(main.inputs):
        behind = sorted({source for source, _ in joined.behind(operand.name)} - {key}) if operand.name else []
        order.extend(behind)
        if operand.name in joined.constants and not behind and not _added(main, at, key):
            yield f"{operand.name!r} is an operand of {key!r} in the model and not in the file"
    if main.op != "Reshape" and len(order) == len(wanted) and order != wanted:
        yield f"the operands of {key!r} are {', '.join(wanted)} in the file, and {', '.join(order)} in the model"


def _added(main: gs.Node, at: int, key: str) -> bool:
    """Whether an exporter adds such a constant: the bias of a FullyConnected without one, a factor of GELU.

    The oldest files lack statistics.
    """
    operand = main.inputs[at]
    if main.op == "Gemm" and at == 2:
        value = constant_value(operand)
        return value is not None and not value.any()
    if main.op == "Mul":
        return str(operand.name) == f"{key}_half"  # 1.9 writes GELU as several nodes
    return main.op == "Reshape" or operand.name in (f"{key}_moving_mean", f"{key}_moving_var")
