"""Initializers in what is written: kept, dropped, edited, new ones where they are used, and their listings among the inputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx import numpy_helper

from rewriter import Model, RewriterError
from rewriter.core.graph.objects import Constant, Variable, constant_array, new_constant

TEXT = """
<ir_version: 8, opset_import: ["": 17]>
main (float[N,4] x, bool c) => (float[N,4] y)
<float[4] w = {1, 2, 3, 4}, float[4] unused = {0, 0, 0, 0}> {
  h = Add(x, w)
  k = LeakyRelu(h)
  y = If(c) <
    then_branch = then () => (t) { t = Add(k, w) },
    else_branch = else () => (e) <float one = {1}> { e = Neg(k) }
  >
}
"""


@pytest.fixture
def model() -> Model:
    return Model.from_proto(onnx.parser.parse_model(TEXT))


def written(model: Model) -> onnx.ModelProto:
    """The model as it is read back from what would be saved."""
    return onnx.ModelProto.FromString(model.to_proto().SerializeToString())


def names(protos: object) -> list[str]:
    return [proto.name for proto in protos]  # type: ignore[attr-defined]


def test_unused_initializers_stay_until_dropped(model: Model) -> None:
    unused = model.graph.initializers[1]
    model.drop(unused)
    assert names(written(model).graph.initializer) == ["w"]
    model.drop(model.graph.initializers[0])
    assert names(written(model).graph.initializer) == ["w"], "it is used"


def test_an_initializer_of_a_subgraph_is_dropped(model: Model) -> None:
    body = model.graph.nodes[2].bodies["else_branch"]
    model.drop(body.initializers[0])
    assert names(written(model).graph.node[2].attribute[1].g.initializer) == []


def test_new_constants_are_written_where_they_are_used(model: Model) -> None:
    new, plain = new_constant("new", np.float32([1])), gs.Constant("plain", np.float32([2]))
    body = model.graph.nodes[2].bodies["then_branch"]
    model.graph.nodes[0].inputs[1] = new
    body.nodes[0].inputs[1] = plain
    result = written(model).graph
    assert names(result.initializer) == ["w", "unused", "new"]
    assert names(result.node[2].attribute[0].g.initializer) == ["plain"]
    body.nodes[0].inputs[0] = new
    assert names(written(model).graph.node[2].attribute[0].g.initializer) == ["plain"], "the outer graph has it"


def test_values_edited_in_place_and_replaced(model: Model) -> None:
    w = model.graph.initializers[0]
    w.values[0] = 9
    assert numpy_helper.to_array(written(model).graph.initializer[0]).tolist() == [9, 2, 3, 4]
    w.values = np.zeros((2, 2), np.float64)
    result = written(model).graph.initializer[0]
    assert (result.data_type, list(result.dims)) == (onnx.TensorProto.DOUBLE, [2, 2])
    w.values = np.float32([1, 2, 3, 4])
    assert not model.edited


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e4m3fnuz, ml_dtypes.uint2])
def test_constants_of_types_numpy_lacks(model: Model, dtype: type) -> None:
    model.graph.nodes[0].inputs[1] = new_constant("small", np.array([1, 0, 1]).astype(dtype))
    result = Model.from_proto(written(model)).graph.initializers[-1]
    assert constant_array(result).dtype == dtype
    assert constant_array(result).astype(np.float32).tolist() == [1, 0, 1]


def test_a_constant_with_another_element_type() -> None:
    assert constant_array(new_constant("c", np.float32([1.5]), onnx.TensorProto.BFLOAT16)).dtype == ml_dtypes.bfloat16
    with pytest.raises(RewriterError, match="no element type 77"):
        new_constant("c", np.float32([1.5]), 77)
    with pytest.raises(RewriterError, match="datetime64"):
        new_constant("c", np.array(["2020-01-01"], dtype="datetime64[D]"))


def listing(text: str) -> Model:
    return Model.from_proto(onnx.parser.parse_model(text))


OLD = """
<ir_version: 3, opset_import: ["": 7]> main (float[2] x, float[2] w, float[2] v) => (float[2] y)
<float[2] w = {1, 2}, float[2] v = {3, 4}> { h = Add(x, w) y = Add(h, v) }
"""


def test_listings_go_and_stay_with_their_initializers() -> None:
    model = listing(OLD)
    assert names(model.graph.inputs) == ["x"]
    assert model.listed == {"w", "v"}
    first, second = model.graph.nodes
    second.outputs[0].inputs.clear()
    first.outputs = [model.graph.outputs[0]]
    model.graph.nodes.remove(second)
    model.drop(second.inputs[1])
    model.graph.initializers[0].name = "weights"
    result = written(model).graph
    assert names(result.input) == ["x", "weights"]
    assert names(result.initializer) == ["weights"]


def test_new_initializers_are_listed_where_all_are() -> None:
    model = listing(OLD)
    model.graph.nodes[0].inputs[1] = new_constant("new", np.float32([[1], [2]]))
    result = written(model).graph
    assert names(result.input) == ["x", "w", "v", "new"]
    assert [d.dim_value for d in result.input[3].type.tensor_type.shape.dim] == [2, 1]
    model = listing(OLD.replace("ir_version: 3", "ir_version: 8").replace(", float[2] v)", ")"))
    model.graph.nodes[0].inputs[1] = new_constant("new", np.float32([1, 2]))
    assert names(written(model).graph.input) == ["x", "w"]


def test_a_listed_initializer_of_another_shape_is_declared_so() -> None:
    model = listing(OLD)
    model.graph.initializers[0].values = np.zeros((1, 2), np.float16)
    info = written(model).graph.input[1].type.tensor_type
    assert (info.elem_type, [d.dim_value for d in info.shape.dim]) == (onnx.TensorProto.FLOAT16, [1, 2])


def test_who_may_override_initializers() -> None:
    assert listing(OLD).overridable == frozenset(), "ir_version 3 wants all listed"
    some = listing(OLD.replace("ir_version: 3", "ir_version: 8").replace(", float[2] v)", ")"))
    assert some.overridable == {"w"}
    assert not some.inputs_are_constant
    some.constant_inputs = "yes"
    assert some.overridable == frozenset()
    every = listing(OLD.replace("ir_version: 3", "ir_version: 8"))
    assert every.overridable == frozenset(), "listed out of habit"
    every.constant_inputs = "no"
    assert every.overridable == {"w", "v"}


def test_variables_become_constants_and_back(model: Model) -> None:
    h = model.graph.nodes[0].outputs[0]
    model.graph.nodes[0].outputs.clear()
    h.to_constant(np.float32([[1, 2, 3, 4]]))
    assert type(h) is Constant
    assert names(written(model).graph.initializer) == ["w", "unused", "h"]
    h.to_variable(np.float32, ["N", 4])
    assert type(h) is Variable
    w = model.graph.initializers[0]
    w.to_variable(np.float32, [4])
    model.graph.inputs.append(w)
    result = written(model).graph
    assert names(result.initializer) == ["unused"]
    assert names(result.input) == ["x", "c", "w"]
