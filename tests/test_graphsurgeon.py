"""Scripts written for onnx-graphsurgeon run unchanged on a loaded graph, and compute what they compute on graphsurgeon's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from onnx.reference import ReferenceEvaluator

import rewriter
from rewriter.core.errors import RewriterError

NET = """
<ir_version: 8, opset_import: ["": 13]>
g (float[1,3,8,8] image) => (float[1,4,8,8] y, float[2] spare) <
    float[4,3,1,1] kernel = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}, float[1] zero = {0}, float[1] six = {6},
    float[2] a = {1, 2}, float[2] b = {3, 4}> {
    [conv] features = Conv(image, kernel)
    [drop] kept = Identity(features)
    [low] least = Max(kept, zero)
    [high] most = Min(least, six)
    [last] y = Sigmoid(most)
    [sum] sums = Add(a, b)
    [twice] spare = Mul(sums, a)
    [unused] nobody = Neg(image)
}
"""
LINEAR = """
<ir_version: 8, opset_import: ["": 13, "local": 1]>
g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}> { h = local.scaled(x, w)  y = Relu(h) }
<domain: "local", opset_import: ["": 13]> scaled (u, v) => (r) { s = Mul(u, v)  t = Identity(s)  r = Neg(t) }
"""
Script = Callable[[Any], Any]


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def ours(proto: onnx.ModelProto, folder: Path) -> Any:
    """The graph that rewriter loads."""
    onnx.save(proto, folder / "net.onnx")
    return rewriter.load(folder / "net.onnx").graph


def outputs(proto: onnx.ModelProto) -> dict[str, Any]:
    """What a model computes, checked before."""
    onnx.checker.check_model(proto)
    chance = np.random.default_rng(0)
    feed = {}
    for info in proto.graph.input:
        shape = [dim.dim_value or 2 for dim in info.type.tensor_type.shape.dim]
        feed[info.name] = chance.normal(size=shape).astype(np.float32)
    names = [info.name for info in proto.graph.output]
    return dict(zip(names, ReferenceEvaluator(proto).run(None, feed), strict=True))


def both(script: Script, folder: Path, text: str = NET) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """What a script makes of graphsurgeon's own graph and of ours, which compute the same; its last line exports."""
    exported = []
    for graph in (gs.import_onnx(model(text)), ours(model(text), folder)):
        script(graph)
        exported.append(gs.export_onnx(graph))
    theirs, found = map(outputs, exported)
    assert theirs.keys() == found.keys()
    for name, wanted in theirs.items():
        np.testing.assert_array_equal(found[name], wanted)
    assert [node.op_type for node in exported[0].graph.node] == [node.op_type for node in exported[1].graph.node]
    return exported[0], exported[1]


def test_a_model_of_nothing(tmp_path: Path) -> None:
    """Example 01: nothing is loaded; what was made is rewritten."""
    x, y = gs.Variable("x", np.float32, (1, 3, 5, 5)), gs.Variable("y", np.float32, (1, 2, 3, 3))
    w = gs.Constant("w", np.ones((2, 3, 3, 3), np.float32))
    graph = gs.Graph(nodes=[gs.Node("Conv", inputs=[x, w], outputs=[y])], inputs=[x], outputs=[y], opset=13)
    assert not rewriter.rewrite(graph).stops
    assert outputs(gs.export_onnx(graph))["y"].shape == (1, 2, 3, 3)


def test_a_model_with_an_initializer(tmp_path: Path) -> None:
    """Example 02: a constant put before a node of a loaded graph."""

    def script(graph: Any) -> None:
        last = graph.outputs[0]
        doubled = gs.Variable("doubled", np.float32, last.shape)
        graph.nodes.append(gs.Node("Mul", inputs=[last, gs.Constant("two", np.full(1, 2, np.float32))], outputs=[doubled]))
        graph.outputs[0] = doubled

    both(script, tmp_path)


def test_a_part_is_isolated(tmp_path: Path) -> None:
    """Example 03: from one tensor to another, which become input and output."""

    def script(graph: Any) -> None:
        tensors = graph.tensors()
        graph.inputs = [tensors["features"].to_variable(dtype=np.float32, shape=(1, 4, 8, 8))]
        graph.outputs = [tensors["most"].to_variable(dtype=np.float32)]
        graph.outputs[0].shape = (1, 4, 8, 8)
        graph.cleanup()

    _, found = both(script, tmp_path)
    assert [node.name for node in found.graph.node] == ["drop", "low", "high"]


def test_a_model_is_modified(tmp_path: Path) -> None:
    """Example 04: an activation of another kind, an operand more, an attribute less."""

    def script(graph: Any) -> None:
        (sigmoid,) = [node for node in graph.nodes if node.op == "Sigmoid"]
        sigmoid.op, sigmoid.attrs["alpha"] = "LeakyRelu", 0.5
        graph.outputs = [graph.outputs[0]]
        first = next(node for node in graph.nodes if node.op == "Conv")
        first.inputs.append(gs.Constant("bias", np.arange(4, dtype=np.float32)))
        assert first.o().o().op == "Max" and first.outputs[0].outputs[0].op == "Identity"
        graph.cleanup().toposort()

    both(script, tmp_path)


def test_constants_are_folded(tmp_path: Path) -> None:
    """Example 05."""
    pytest.importorskip("onnxruntime")
    _, found = both(lambda graph: graph.fold_constants().cleanup(), tmp_path)
    assert "Add" not in [node.op_type for node in found.graph.node]


def test_a_node_is_removed(tmp_path: Path) -> None:
    """Example 06: its readers read what it read."""

    def script(graph: Any) -> None:
        (gone,) = [node for node in graph.nodes if node.op == "Identity"]
        before = gone.i()
        before.outputs = gone.outputs
        gone.outputs.clear()
        graph.cleanup()

    _, found = both(script, tmp_path)
    assert "Identity" not in [node.op_type for node in found.graph.node]


def test_operators_are_registered_and_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 07: a model built with functions of one's own, for all opsets and for one."""
    monkeypatch.setattr(gs.Graph, "GLOBAL_FUNC_MAP", dict(gs.Graph.GLOBAL_FUNC_MAP))
    monkeypatch.setattr(gs.Graph, "OPSET_FUNC_MAP", gs.Graph.OPSET_FUNC_MAP.copy())

    @gs.Graph.register()
    def shifted(self: Any, x: Any, by: Any) -> Any:
        return self.layer(op="Add", inputs=[x, by], outputs=["shifted"])

    @gs.Graph.register(opsets=[13])
    def squashed(self: Any, x: Any) -> Any:
        return self.layer(op="Tanh", inputs=[x], outputs=["squashed"])

    def script(graph: Any) -> None:
        found = graph.squashed(*graph.shifted(graph.outputs[0], np.ones(1, np.float32)))
        found[0].dtype, found[0].shape = np.float32, graph.outputs[0].shape
        graph.outputs[0] = found[0]
        graph.cleanup().toposort()

    both(script, tmp_path)


def test_a_part_is_replaced_by_one_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Example 08: the parts before and behind are cut loose, and a registered operator stands between."""
    monkeypatch.setattr(gs.Graph, "GLOBAL_FUNC_MAP", dict(gs.Graph.GLOBAL_FUNC_MAP))

    @gs.Graph.register()
    def bounded(self: Any, inputs: Any, results: Any) -> Any:
        for tensor in inputs:
            tensor.outputs.clear()
        for tensor in results:
            tensor.inputs.clear()
        return self.layer(op="Clip", inputs=inputs, outputs=results)

    def script(graph: Any) -> None:
        tensors = graph.tensors()
        for name in ("zero", "six"):
            tensors[name].to_constant(tensors[name].values.reshape(()))
        graph.bounded([tensors["kept"], tensors["zero"], tensors["six"]], [tensors["most"]])
        graph.cleanup().toposort()

    _, found = both(script, tmp_path)
    assert [node.op_type for node in found.graph.node].count("Clip") == 1


def test_shapes_are_computed(tmp_path: Path) -> None:
    """Example 09: a shape that the model computes itself, and folds where it is known."""
    pytest.importorskip("onnxruntime")

    def script(graph: Any) -> None:
        (shape,) = graph.layer(op="Shape", inputs=[graph.inputs[0]], outputs=["shape"])
        (count,) = graph.layer(op="ReduceProd", inputs=[shape], attrs={"axes": [0], "keepdims": 1}, outputs=["count"])
        (flat,) = graph.layer(op="Reshape", inputs=[graph.inputs[0], count], outputs=["flat"])
        shape.dtype = count.dtype = np.int64
        flat.dtype, flat.shape = np.float32, (192,)
        graph.outputs = [flat]
        graph.cleanup().toposort()
        graph.fold_constants().cleanup()

    _, found = both(script, tmp_path)
    assert [node.op_type for node in found.graph.node] == ["Reshape"]


def test_dimensions_become_dynamic(tmp_path: Path) -> None:
    """Example 10."""

    def script(graph: Any) -> None:
        for tensor in (graph.inputs[0], graph.outputs[0]):
            tensor.shape[0] = "N"

    _, found = both(script, tmp_path)
    assert found.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_local_functions(tmp_path: Path) -> None:
    """Example 11: one that is there is called again, and a new one is added and called."""

    def script(graph: Any) -> None:
        u, r = gs.Variable("u"), gs.Variable("r")
        cube = gs.Function("cube", domain="local", inputs=[u], outputs=[r], opset=13, attrs={"exponent": None})
        (more,) = cube.layer(op="Mul", inputs=[u, u], outputs=["square"])
        cube.layer(op="Mul", inputs=[more, u], outputs=[r])
        graph.functions.append(cube)
        (y,) = graph.cube(inputs=[graph.outputs[0]], attrs={"exponent": 3.0})
        y.dtype, y.shape = np.float32, ("N", 4)
        graph.outputs = [y]
        graph.cleanup().toposort()

    _, found = both(script, tmp_path, LINEAR)
    assert sorted(function.name for function in found.functions) == ["cube", "scaled"]


def test_weights_are_stripped_and_put_elsewhere(tmp_path: Path) -> None:
    """Example 12, and weights beside the model: their values are replaced, and saved in another file."""

    def script(graph: Any) -> None:
        for tensor in graph.tensors().values():
            if isinstance(tensor, gs.Constant) and tensor.values.size > 4:
                assert tensor.shape == tensor.values.shape and tensor.dtype == np.float32
                tensor.values = np.zeros_like(tensor.values)

    _, found = both(script, tmp_path)
    onnx.save(found, tmp_path / "o.onnx", save_as_external_data=True, location="o.data", size_threshold=16)
    graph = rewriter.load(tmp_path / "o.onnx").graph
    assert not graph.tensors()["kernel"].values.any() and (tmp_path / "o.data").stat().st_size >= 48


@pytest.mark.parametrize("name", ["image", "features", "kernel"])
def test_any_tensor_becomes_either_kind(tmp_path: Path, name: str) -> None:
    """In place, so that all who read it see it."""
    graph = ours(model(NET), tmp_path)
    tensor = graph.tensors()[name]
    readers = list(tensor.outputs)
    assert tensor.to_variable(np.float16, ("N", 4)) is tensor and isinstance(tensor, gs.Variable)
    assert (tensor.dtype, list(tensor.shape), list(tensor.outputs)) == (np.float16, ["N", 4], readers)
    assert tensor.to_variable() is tensor and tensor.dtype == np.float16 and list(tensor.shape) == []
    values = np.ones((2, 2), np.float32)
    assert tensor.to_constant(values) is tensor and isinstance(tensor, gs.Constant) and tensor.values is values
    assert tensor.to_constant(values + 1).values.sum() == 8 and list(tensor.outputs) == readers
    assert tensor.to_variable().dtype == np.float32


@pytest.mark.parametrize("loaded", [False, True])
def test_a_function_is_rewritten(tmp_path: Path, loaded: bool) -> None:
    """Only that one: the graph that calls it stays as it is."""
    graph = ours(model(LINEAR), tmp_path) if loaded else gs.import_onnx(model(LINEAR))
    (function,) = graph.functions
    before = outputs(model(LINEAR))
    rules = rewriter.load_rules().select(["OPTIMIZE"])
    assert [firing.rule for firing in rewriter.check(function, rules).firings]
    assert [node.op for node in function.nodes] == ["Mul", "Identity", "Neg"]
    assert [firing.rule for firing in rewriter.rewrite(function, rules).firings]
    assert [node.op for node in function.nodes] == ["Mul", "Neg"] and len(graph.nodes) == 2
    assert graph.functions == [function]
    after = outputs(gs.export_onnx(graph))
    np.testing.assert_array_equal(after["y"], before["y"])


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(RewriterError, match="not on a ModelProto"):
        rewriter.rewrite(model(NET))
