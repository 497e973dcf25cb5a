"""Which source files are believed: a model's own, and none of a network that looks like it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.graph.model import Model, load
from rewriter.trust.source.acceptance import objection
from rewriter.trust.source.find import parse_source
from tests.cli.call import MODELS

SYMBOLS = sorted([*MODELS.rglob("symbol.json"), *MODELS.rglob("*-symbol.json")])


def model_of(symbol: Path) -> Path:
    return symbol.with_name(
        "model.onnx" if symbol.name == "symbol.json" else f"{symbol.name.removesuffix('-symbol.json')}.onnx"
    )


@pytest.mark.parametrize("symbol", SYMBOLS, ids=lambda path: str(path.relative_to(MODELS)))
def test_the_file_of_every_shipped_export_is_accepted(symbol: Path) -> None:
    assert objection(parse_source(symbol.read_text(), symbol.name), load(model_of(symbol)).graph) == ""


Nodes = list[dict[str, Any]]
NET: Nodes = [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "null", "name": "conv_weight", "inputs": []},
    {"op": "Convolution", "name": "conv", "attrs": {"kernel": "(3, 3)", "num_filter": "2", "pad": "(1, 1)", "no_bias": "True"},
     "inputs": [[0, 0, 0], [1, 0, 0]]},
    {"op": "Activation", "name": "act", "attrs": {"act_type": "relu"}, "inputs": [[2, 0, 0]]},
    {"op": "Pooling", "name": "pool", "attrs": {"kernel": "(2, 2)", "stride": "(2, 2)", "pool_type": "avg"}, "inputs": [[3, 0, 0]]},
    {"op": "elemwise_sub", "name": "diff", "inputs": [[3, 0, 0], [2, 0, 0]]},
    {"op": "_mul_scalar", "name": "scaled", "attrs": {"scalar": "3"}, "inputs": [[5, 0, 0]]},
    {"op": "null", "name": "fc_weight", "inputs": []},
    {"op": "FullyConnected", "name": "fc", "attrs": {"num_hidden": "5", "no_bias": "True"}, "inputs": [[4, 0, 0], [7, 0, 0]]},
]  # fmt: skip
HEADS = [[8, 0, 0], [6, 0, 0]]
MODEL = """
    <ir_version: 3, opset_import: ["": 8]>
    mxnet_converted_model (float[1,2,4,4] data) => (float[1,2,4,4] scaled, float[1,5] fc)
    <float[2,2,3,3] conv_weight, float[5,8] fc_weight, float[1] scalar_op6 = {3}, int64[1] bias8 = {0}> {
        [conv] conv = Conv<kernel_shape = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1]>(data, conv_weight)
        [act] act = Relu(conv)
        [pool] pool = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(act)
        [diff] diff = Sub(act, conv)
        [scaled] scaled = Mul(diff, scalar_op6)
        [flatten_8] flatten_8 = Flatten(pool)
        [fc] fc = Gemm<transB = 1>(flatten_8, fc_weight, bias8)
    }"""


def graph(text: str = MODEL) -> gs.Graph:
    proto = onnx.parser.parse_model(text.replace("float[2,2,3,3] conv_weight", f"float[2,2,3,3] conv_weight = {_ones(36)}")
                                    .replace("float[5,8] fc_weight", f"float[5,8] fc_weight = {_ones(40)}"))  # fmt: skip
    return Model.from_proto(proto).graph


def _ones(count: int) -> str:
    return "{" + ",".join("1" * count) + "}"


def said(nodes: Nodes = NET, heads: Any = HEADS, text: str = MODEL, version: int = 10501) -> str:
    symbol = {"nodes": nodes, "heads": heads, "attrs": {"mxnet_version": ["int", version]}}
    return objection(parse_source(json.dumps(symbol), "net-symbol.json"), graph(text))


def changed(at: int, **parts: Any) -> Nodes:
    """The network with one node changed; attributes are merged."""
    found: Nodes = json.loads(json.dumps(NET))
    attributes = {**found[at].get("attrs", {}), **parts.pop("attrs", {})}
    found[at] = {**found[at], **parts, "attrs": attributes}
    return found


def test_the_own_file_is_accepted() -> None:
    assert said() == ""


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (changed(0, name="image"), "the variable 'image' is not in the model"),
        (changed(7, name="fc_kernel"), "the variable 'fc_kernel' is not in the model"),
        (changed(0, attrs={"__shape__": "(0, 3, 4, 4)"}), "the variable 'data' has the shape [0, 3, 4, 4], in the model [1, 2, 4, 4]"),
        (changed(3, name="act0"), "Activation 'act0' is not in the model"),
        (changed(3, attrs={"act_type": "tanh"}), "'act' is Activation (tanh), in the model Relu"),
        (changed(4, attrs={"pool_type": "max"}), "'pool' is Pooling (max), in the model AveragePool"),
        (changed(4, attrs={"global_pool": "True"}), "'pool' is Pooling (avg), in the model AveragePool"),
        (changed(5, op="elemwise_add"), "'diff' is elemwise_add, in the model Sub"),
        (changed(4, inputs=[[2, 0, 0]]), "'conv' is an operand of 'pool' in the file and not in the model"),
        (changed(5, inputs=[[2, 0, 0], [3, 0, 0]]), "the operands of 'diff' are conv, act in the file, and act, conv in the model"),
        (changed(2, attrs={"kernel": "(1, 1)"}), "'conv' is Convolution with kernel [1, 1], in the model [3, 3]"),
        (changed(2, attrs={"pad": "(0, 0)"}), "'conv' is Convolution with pad [0, 0, 0, 0], in the model [1, 1, 1, 1]"),
        (changed(2, attrs={"stride": "(2, 2)"}), "'conv' is Convolution with stride [2, 2], in the model [1, 1]"),
        (changed(2, attrs={"num_filter": "4"}), "'conv' is Convolution with num_filter 4, in the model 2"),
        (changed(6, attrs={"scalar": "2"}), "'scaled' is _mul_scalar with scalar 2.0, in the model 3.0"),
        (changed(8, attrs={"num_hidden": "6"}), "'fc' is FullyConnected with num_hidden 6, in the model 5"),
    ],
)  # fmt: skip
def test_what_another_network_says_otherwise(nodes: Nodes, why: str) -> None:
    assert said(nodes) == why


def test_of_many_missing_variables_the_first_one_of_the_file_is_told() -> None:
    names = [f"{letter}{number}" for letter in "zyx" for number in range(9)]
    nodes = [{"op": "null", "name": name, "inputs": []} for name in names]
    total = {"op": "add_n", "name": "sum", "inputs": [[i, 0, 0] for i in range(len(names))]}
    assert said([*nodes, total], [[len(names), 0, 0]]) == "the variable 'z0' is not in the model"


@pytest.mark.parametrize(
    ("at", "attributes"),
    [
        (4, {"count_include_pad": "False"}),
        (4, {"pooling_convention": "full"}),
        (8, {"flatten": "False"}),
        (3, {"__lr_mult__": "2"}),
    ],
)
def test_what_no_exporter_up_to_1_8_writes_tells_nothing_apart(at: int, attributes: dict[str, str]) -> None:
    assert said(changed(at, attrs=attributes)) == ""


def test_what_1_9_writes_is_compared() -> None:
    own = [NET[0], {"op": "Pooling", "name": "pool", "attrs": {"kernel": "(2,2)", "pool_type": "avg"}, "inputs": [[0, 0, 0]]}]
    text = """<ir_version: 7, opset_import: ["": 13]>
        mxnet_converted_model (float[1,2,4,4] data) => (float[1,2,3,3] pool)
        { pool = AveragePool<kernel_shape = [2, 2], ceil_mode = 0, count_include_pad = 1>(data) }"""
    for attributes, accepted in (
        ({}, True),
        ({"count_include_pad": "False"}, False),
        ({"pooling_convention": "full"}, False),
    ):
        symbol = [own[0], {**own[1], "attrs": {**own[1]["attrs"], **attributes}}]
        assert (said(symbol, [[1, 0, 0]], text, 10901) == "") is accepted


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("Flatten(pool)", "Flatten(more)").replace("[flatten_8]", "[more] more = LRN<size = 1>(pool) [flatten_8]"),
         "LRN 'more' of the model is not in the file"),
        (lambda text: text.replace("=> (", "=> (float[1,2,4,4] act, "), "'act' is an output of the model and not of the file"),
        (lambda text: text.replace("=> (float[1,2,4,4] scaled, ", "=> ("), "'scaled' is an output of the file and not of the model"),
        (lambda text: text.replace("data)", "data, float[1] other)"), "the input 'other' of the model is not in the file"),
        (lambda text: text.replace("bias8 = {0}", "bias8 = {4}"), "'bias8' is an operand of 'fc' in the model and not in the file"),
        (lambda text: text.replace("scalar_op6", "scalar_op4"), "'scaled' is _mul_scalar with place 6 in the file, in the model 'scalar_op4'"),
    ],
)  # fmt: skip
def test_what_the_model_has_besides(change: Callable[[str], str], why: str) -> None:
    assert change(MODEL) != MODEL
    assert said(text=change(MODEL)) == why


def test_outputs_stand_in_the_order_of_the_file_or_of_the_operators() -> None:
    both, turned = "float[1,2,4,4] scaled, float[1,5] fc", "float[1,5] fc, float[1,2,4,4] scaled"
    assert said(text=MODEL.replace(both, turned)) == ""  # as the file has them
    assert said(heads=HEADS[::-1], text=MODEL.replace(both, turned)) == "the outputs of the model are in another order"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("Relu(conv)", "Relu(same)").replace("[act]", "same = Identity(conv) [act]"),
        lambda text: text.replace("[conv]", "").replace("[act]", ""),
    ],
)
def test_what_does_not_matter(change: Callable[[str], str]) -> None:
    assert said(text=change(MODEL)) == ""


def test_the_label_of_a_loss_is_not_exported() -> None:
    nodes = [
        NET[0],
        {"op": "null", "name": "softmax_label", "inputs": []},
        {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[0, 0, 0], [1, 0, 0]]},
    ]
    text = """<ir_version: 3, opset_import: ["": 8]>
        mxnet_converted_model (float[1,4] data) => (float[1,4] softmax) { [softmax] softmax = Softmax<axis = 1>(data) }"""
    assert said(nodes, [[2, 0, 0]], text) == ""


@pytest.mark.parametrize("version", [10501, 10901])
def test_a_weight_may_be_a_constant_node(version: int) -> None:
    weight = f"fc_weight = Constant<value = float[5,8] {_ones(40)}>()\n"
    text = MODEL.replace("float[5,8] fc_weight, ", "").replace("[flatten_8]", weight + "[flatten_8]")
    assert said(text=text, version=version) == ""
    assert said(text=text.replace("fc_weight", "other"), version=version) == "the variable 'fc_weight' is not in the model"


def test_a_constant_that_an_exporter_adds_may_be_a_node() -> None:
    nodes = "scalar_op6 = Constant<value = float[1] {3}>()  bias8 = Constant<value = int64[1] {0}>()\n"
    text = MODEL.replace(", float[1] scalar_op6 = {3}, int64[1] bias8 = {0}", "").replace("[conv] conv", nodes + "[conv] conv")
    assert said(text=text) == ""
    assert said(text=text.replace("{3}", "{4}")) == said(text=MODEL.replace("{3}", "{4}")) != ""
    assert (
        said(text=text.replace("int64[1] {0}", "int64[1] {1}")) == said(text=MODEL.replace("bias8 = {0}", "bias8 = {1}")) != ""
    )


@pytest.mark.parametrize("last", ["Identity", "Cast<to = 1>"])
def test_an_identity_may_give_the_result_of_a_node(last: str) -> None:
    text = MODEL.replace("[diff] diff = Sub(act, conv)", f"[diff] inner = Sub(act, conv)  diff = {last}(inner)")
    assert said(text=text) == ""
    assert said(text=text.replace(f"{last}(inner)", "Neg(inner)")) == "'diff' is elemwise_sub, in the model Neg"


def test_casts_of_a_converter_to_float16_belong_to_no_operator() -> None:
    text = MODEL.replace("Relu(conv)", "Relu(half)").replace("[act]", "[act_input_cast0] half = Cast<to = 10>(conv) [act]")
    assert said(text=text) == ""
    assert "half" in said(text=text.replace("Cast<to = 10>", "Cast<to = 7>").replace("[act_input_cast0] ", ""))


def test_what_goes_on_with_a_result_is_not_of_the_file_whatever_its_name() -> None:
    text = MODEL.replace(
        "[scaled] scaled = Mul(diff", "[diff_turned] diff_turned = Neg(diff)  [scaled] scaled = Mul(diff_turned"
    )
    assert said(text=text, version=10901) == "Neg 'diff_turned' of the model is not in the file"


def test_a_scalar_on_a_weight_is_a_constant() -> None:
    nodes = [
        {"op": "null", "name": "w", "inputs": []},
        {"op": "_mul_scalar", "name": "twice", "attrs": {"scalar": "2"}, "inputs": [[0, 0, 0]]},
        NET[0],
        {"op": "broadcast_add", "name": "sum", "inputs": [[2, 0, 0], [1, 0, 0]]},
    ]
    text = """<ir_version: 3, opset_import: ["": 8]>
        mxnet_converted_model (float[2] data, float[2] w) => (float[2] sum) <float[2] w = {1, 2}, float[2] w1 = {2, 4}>
        { [sum] sum = Add(data, w1) }"""
    assert said(nodes, [[3, 0, 0]], text) == ""
    assert said(nodes, [[3, 0, 0]], text.replace("w1", "w7")) == "_mul_scalar 'twice' is not in the model"


def test_1_3_keeps_the_axis_of_a_search_and_later_versions_do_as_the_file_says() -> None:
    nodes = [NET[0], {"op": "argmax", "name": "best", "attrs": {"axis": "1"}, "inputs": [[0, 0, 0]]}]
    text = """<ir_version: 3, opset_import: ["": 8]>
        mxnet_converted_model (float[1,4] data) => (int64[1] best) { [best] best = ArgMax<axis = 1, keepdims = 1>(data) }"""
    assert said(nodes, [[1, 0, 0]], text, 10301) == ""
    assert said(nodes, [[1, 0, 0]], text, 10501) == "'best' is argmax with keepdims False, in the model True"


def test_a_table_is_believed_where_its_nodes_are_in_the_model() -> None:
    assert objection(parse_source('{"act": {"slope": 1}}', "symbol.json"), graph()) == ""
    assert objection(parse_source('{"act": {}, "bct": {}}', "symbol.json"), graph()) == "'bct' is not in the model"
