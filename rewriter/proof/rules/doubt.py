"""When a difference is no counterexample, and when it is one that ONNX Runtime alone does not show.

Two oracles that disagree on a model which no rule has touched say nothing about the rule, and random numbers differ from
themselves. ONNX Runtime computes half precision on the CPU in single precision, so an overflow shows in onnx.reference only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from rewriter.language.dtypes import DTYPES
from rewriter.language.schema import DRAWS
from rewriter.proof.instances.instance import Array
from rewriter.proof.models.inner_tensors import values_of
from rewriter.proof.models.run_agreement import RunBound, compare
from rewriter.proof.oracles import ORACLES, Answer, Loaded, Refusal

ORACLES_AGREE = RunBound(rtol=1e-3, atol=1e-4, scale=True)
RANDOM = "random outputs cannot be compared"
DISAGREE = "the oracles disagree before the rewrite"


def doubt(
    model: onnx.ModelProto, before: Loaded, inputs: Mapping[str, Array], output: str, wanted: Mapping[str, Array], oracle: str
) -> str:
    """Why a difference in an output says nothing about a rule; "" where it does.

    Args:
        model: the model before the rewrite.
        before: the same, loaded by the oracle that tells the difference.
        inputs: with which it shows.
        output: where it shows.
        wanted: what the model computed before the rewrite.
        oracle: the name of the oracle.
    """
    asked = {output: wanted[output]}
    again = before(inputs)
    if isinstance(again, Refusal) or compare(asked, again, RunBound())[0] is not None:
        return RANDOM
    lenient = ORACLES[1]
    if oracle == lenient.name:
        return ""
    loaded = lenient.load(model)
    other = loaded if isinstance(loaded, Refusal) else loaded(inputs)
    if isinstance(other, Refusal) or output not in other:
        return ""
    return DISAGREE if _apart(np.asarray(wanted[output]), np.asarray(other[output])) else ""


def draws(model: onnx.ModelProto) -> bool:
    """Whether random numbers are drawn. To run it again does not always show it: two draws of one element are often equal."""
    false = {tensor.name for tensor in model.graph.initializer if not onnx.numpy_helper.to_array(tensor).any()}
    return any(
        node.op_type in DRAWS or (node.op_type == "Dropout" and node.input[2:] and node.input[2] not in {"", *false})
        for node in model.graph.node
    )


def _apart(one: Array, other: Array) -> bool:
    """Whether two results differ, at the edges of their type, too, where a bound asks nothing."""
    if one.shape != other.shape or one.dtype != other.dtype or one.dtype.kind not in "fV":
        return compare({"": one}, {"": other}, ORACLES_AGREE)[0] is not None
    first, second = one.astype(np.float64), other.astype(np.float64)
    tame = np.isfinite(first) & (np.abs(first) < 1e30)
    size = np.maximum(np.abs(first), np.max(np.abs(first[tame]), initial=0.0))
    with np.errstate(all="ignore"):
        near = np.abs(first - second) <= ORACLES_AGREE.atol + ORACLES_AGREE.rtol * size
    same = (first == second) | (np.isnan(first) & np.isnan(second)) | (np.isfinite(first) & np.isfinite(second) & near)
    return not bool(np.all(same))


def computes_in_half(model: onnx.ModelProto) -> bool:
    """Whether float16 stands among the inputs, outputs or weights."""
    graph = model.graph
    declared = {info.type.tensor_type.elem_type for info in (*graph.input, *graph.output)}
    return DTYPES["float16"] in declared | {tensor.data_type for tensor in graph.initializer}


def overflows_inside(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> bool:
    """Whether a tensor of half precision is infinite where ONNX Runtime computes it and stores it as what it is.

    onnx.reference also adds up in half precision, which no tensor says and which no runtime has to do.
    """
    values = values_of(model, inputs, ORACLES[0].name)
    if isinstance(values, Refusal):
        return False
    return any(array.dtype == np.float16 and bool(np.isinf(array).any()) for array in values.values())


def overflow(wanted: Answer, lenient: Answer, result: Answer) -> str:
    """The output that overflows in half precision and did not; "" for none.

    Args:
        wanted: of ONNX Runtime before the rewrite.
        lenient: of onnx.reference before.
        result: of onnx.reference after.
    """
    if isinstance(wanted, Refusal) or isinstance(lenient, Refusal) or isinstance(result, Refusal):
        return ""
    for name, array in wanted.items():
        mine, found = lenient.get(name), result.get(name)
        if mine is None or found is None or array.dtype.kind != "f" or not array.shape == mine.shape == found.shape:
            continue
        if compare({name: array}, {name: mine}, ORACLES_AGREE)[0] is None:
            lost = np.isfinite(array) & np.isfinite(mine) & ~np.isfinite(found)
            if np.any(lost):
                return f"output `{name}` overflows in half precision ({int(np.sum(lost))} of {lost.size} elements)"
    return ""
