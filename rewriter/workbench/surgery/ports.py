"""Types of tensors that become inputs or outputs of a model: a valid model must declare them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.message_text import type_text
from rewriter.core.graph.scopes import opset_versions
from rewriter.core.graph.values import Variable, elem_type
from rewriter.core.language.dtypes import DTYPE_NAMES
from rewriter.core.language.schema import normal, registered_at
from rewriter.core.onnxfile.tensors import TensorType, decode, encode, gs_dtype, refine

_TYPE = re.compile(r"[A-Za-z0-9_\[\](),.? -]+")
_SHOWN = ((r"\bsequence\(", "seq("), (r"\bmap (\w+) to\(", r"map(\1, "), (r"\bsparse (\w+\[[^]]*\])", r"sparse_tensor(\1)"))
"""How this program shows types, and how ONNX's text has them."""
_EXAMPLES = {"seq": "seq(float[1])", "optional": "optional(float[1])", "map": "map(int64, float[1])"}
"""Types that are no tensors, by what names of types begin with in schemas."""


def parsed_types(texts: Iterable[str]) -> dict[str, TensorType]:
    """`NAME:TYPE` as types by name, where a type is written as ONNX's text format has it: `float[N,3,?]`, `seq(float[1])`.

    Raises:
        RewriterError: one is written otherwise.
    """
    found: dict[str, TensorType] = {}
    for text in texts:
        name, colon, kind = text.rpartition(":")
        if not colon or not name:
            raise RewriterError(f"{text!r} is not NAME:TYPE, as 'x:float[1,3,8,8]'")
        found[name] = parsed_type(kind)
    return found


def parsed_type(text: str) -> TensorType:
    """A type in ONNX's text format, or as this program shows it; without brackets the shape stays unknown.

    Raises:
        RewriterError: it is none.
    """
    proto, said = None, text
    for shown, written in _SHOWN:
        said = re.sub(shown, written, said)
    if _TYPE.fullmatch(said):
        try:
            proto = onnx.parser.parse_graph(f"g ({said} x) => () {{ }}").input[0].type
        except Exception:  # of the parser, which has a class of its own
            proto = None
    if proto is None:
        raise RewriterError(f"{text!r} is no type; write it as float[1,3,N], int64[?] or {', '.join(_EXAMPLES.values())}")
    if "[" not in text:
        _innermost(proto).ClearField("shape")
    return decode(proto.SerializeToString())


def _innermost(proto: Any) -> Any:
    """The tensors of which a type is made."""
    while (kind := proto.WhichOneof("value")) not in ("tensor_type", "sparse_tensor_type"):
        proto = proto.map_type.value_type if kind == "map_type" else getattr(proto, kind).elem_type
    return getattr(proto, kind)


class Ports:
    """Declares inputs and outputs.

    Args:
        facts: of the model, before it is cut.
        types: what is told of tensors, by name.
    """

    def __init__(self, facts: Facts, types: Mapping[str, TensorType]) -> None:
        self._facts = facts
        self._types = types
        self._used: set[str] = set()
        graph = facts.index.graph
        self._before = set(map(id, (*graph.inputs, *graph.outputs)))

    def declare(self, tensors: Iterable[gs.Tensor], role: str) -> None:
        """Has tensors declare what is told, what they declare already, or what is known of them.

        Raises:
            RewriterError: the element type or the rank of some of them is unknown.
        """
        for tensor, known in self._all(tensors, role):
            set_type(tensor, known)

    def types(self, tensors: Iterable[gs.Tensor]) -> dict[str, TensorType]:
        """What tensors would declare, by name. Errors as for `declare`."""
        return {tensor.name: known for tensor, known in self._all(tensors, "output")}

    def _all(self, tensors: Iterable[gs.Tensor], role: str) -> list[tuple[Variable, TensorType]]:
        found = [(tensor, self._type(tensor)) for tensor in tensors if isinstance(tensor, Variable)]
        lacking = [(tensor, known) for tensor, known in found if self._lacks(tensor, known)]
        if lacking:
            tensor, known = lacking[0]
            what = "element type" if known.dtype is None else "rank"
            more = f" (and of {len(lacking) - 1} more)" if lacking[1:] else ""
            told = " ".join(f"--type {quote(f'{tensor.name}:{self._example(tensor, known)}')}" for tensor, known in lacking)
            raise RewriterError(f"the {what} of the new {role} {tensor.name!r}{more} is not known; say it with {told}")
        return found

    def _type(self, tensor: Variable) -> TensorType:
        self._used.add(tensor.name)
        return self._types.get(tensor.name) or self._known(tensor)

    def _lacks(self, tensor: Variable, known: TensorType) -> bool:
        return not known.other and (known.dtype is None or (known.shape is None and tensor.name not in self._types))

    def _example(self, tensor: Variable, known: TensorType) -> str:
        """How the type could be written: with the element type where that is known."""
        kind = _kind(tensor, opset_versions(self._facts.index.graph))
        return _EXAMPLES.get(kind, f"{'float' if known.dtype is None else DTYPE_NAMES[known.dtype]}[1,3]")

    def unused(self) -> list[str]:
        """Names of which something was told and that were not asked for."""
        return [name for name in self._types if name not in self._used]

    def _known(self, tensor: Variable) -> TensorType:
        found = self._facts.fact(tensor).type
        dtype, shape = self._facts.declared(tensor)
        if id(tensor) in self._before and dtype is not None and shape is not None:
            return TensorType(dtype, shape)
        return found if found.other else refine(found, TensorType(dtype, shape))


def _kind(tensor: Variable, versions: Mapping[str, int]) -> str:
    """What schemas of the operators that make and read a tensor agree on: "tensor", "seq", "optional", or "" for nothing."""
    for node in (*tensor.inputs, *tensor.outputs):
        made = node in tensor.inputs
        domain = normal(node.domain or "")
        schema = registered_at(node.op, domain, versions.get(domain, 0))
        formals = () if schema is None else schema.outputs if made else schema.inputs
        place = next((i for i, one in enumerate(node.outputs if made else node.inputs) if one is tensor), None)
        if place is not None and formals:
            kinds = {kind.partition("(")[0] for kind in formals[min(place, len(formals) - 1)].types}
            if len(kinds) == 1:
                return kinds.pop()
    return ""


def set_type(tensor: Variable, known: TensorType) -> None:
    """Has a tensor declare a type; what it declares already stays as it is written."""
    if not known.other:
        tensor.dtype = None if known.dtype is None else gs_dtype(known.dtype)
        tensor.shape = None if known.shape is None else list(known.shape)
        tensor.type = "tensor_type"
    elif not tensor.infos or encode(known) != tensor.infos[0].type.SerializeToString():
        tensor.infos = (onnx.ValueInfoProto(name=tensor.name, type=onnx.TypeProto.FromString(known.other)),)
        said = tensor.said
        tensor.dtype, tensor.shape, tensor.type = gs_dtype(said.elem_type), said.shape, said.kind


def shown(tensor: gs.Tensor) -> str:
    """`x float[1,3,8,8]`, as a tensor declares itself."""
    if isinstance(tensor, gs.Constant):
        return f"{tensor.name} {_shown(TensorType(elem_type(tensor), tuple(tensor.shape)))}"
    if isinstance(tensor, Variable) and tensor.type not in (None, "tensor_type") and tensor.infos:
        return f"{tensor.name} {type_text(tensor.infos[0].type)}"
    return f"{tensor.name} {_shown(TensorType(elem_type(tensor), None if tensor.shape is None else tuple(tensor.shape)))}"


def _shown(known: TensorType) -> str:
    return type_text(onnx.TypeProto.FromString(encode(known))) or "of unknown type"
