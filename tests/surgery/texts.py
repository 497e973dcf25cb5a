"""Small models that tools for surgery break: bodies that capture, functions within functions, data in other files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from rewriter.core.onnxfile import external_data

CAPTURES = """
<ir_version: 8, opset_import: ["": 17]>
g (float[N,4] x, bool c) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}, float[4] spare = {0, 0, 0, 0}> {
    scaled = Mul(x, w)
    shifted = Add(scaled, w)
    chosen = If(c) <then_branch = t () => (float[N,4] a) { a = Relu(shifted) },
                    else_branch = e () => (float[N,4] b) { b = Mul(scaled, w) }>
    y = Neg(chosen)
}
"""

FUNCTIONS = """
<ir_version: 8, opset_import: ["": 17, "local": 1, "unused": 3]>
g (float[2,4] x, bool c) => (float[2,4] y) {
    h = Relu(x)
    k = If(c) <then_branch = t () => (float[2,4] a) { a = local.outer(h) },
               else_branch = e () => (float[2,4] b) { b = Identity(h) }>
    z = local.other(h)
    y = Add(k, z)
}
<domain: "local", opset_import: ["": 17]>
inner (v) => (r) { r = Exp(v) }
<domain: "local", opset_import: ["": 17, "local": 1]>
outer (v) => (r) { s = local.inner(v)  r = Neg(s) }
<domain: "local", opset_import: ["": 17]>
other (v) => (r) { r = Abs(v) }
"""

CHAIN = """
<ir_version: 8, opset_import: ["": 17]>
g (float[1,3,8,8] x) => (float[1,4,8,8] y, float[1,4] m) <float[4,3,1,1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}> {
    [conv] a = Conv(x, w)
    [act] b = Relu(a)
    p = GlobalAveragePool(b)
    [flat] m = Flatten(p)
    [last] y = Sigmoid(b)
}
"""


def parsed(text: str) -> onnx.ModelProto:
    """The model of a text."""
    return parser.parse_model(text)


def written(folder: Path, text: str, name: str = "net.onnx") -> Path:
    """The file of a text."""
    path = folder / name
    path.write_bytes(parsed(text).SerializeToString())
    return path


def with_data(folder: Path, name: str = "net.onnx", size: int = 4096) -> Path:
    """A model of three multiplications by vectors, whose data are in one file beside it."""
    graph_inputs = [onnx.helper.make_tensor_value_info("x", 1, ["N", size])]
    nodes, held = [], []
    for number in range(3):
        held.append(numpy_helper.from_array(np.full(size, number + 1, np.float32), f"w{number}"))
        nodes.append(
            onnx.helper.make_node("Mul", [f"t{number}" if number else "x", f"w{number}"], [f"t{number + 1}"], f"n{number}")
        )
    outputs = [onnx.helper.make_tensor_value_info("t3", 1, ["N", size])]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", graph_inputs, outputs, held),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    path = folder / name
    onnx.save_model(model, path, save_as_external_data=True, location=f"{name}.weights", size_threshold=0)
    return path


EVERYWHERE = """
<ir_version: 8, opset_import: ["": 17, "local": 1]>
g (float[4] x, bool c) => (float[4] y) <float[4] first = {1, 2, 3, 4}> {
    a = Add(x, first)
    k = Constant <value: tensor = float[4] k {5, 6, 7, 8}> ()
    b = Add(a, k)
    d = If(c) <then_branch = t () => (float[4] u) <float[4] w = {1, 1, 2, 2}> { u = Mul(b, w) },
               else_branch = e () => (float[4] v) { n = Constant <value: tensor = float[4] n {3, 3, 3, 3}> ()  v = Mul(b, n) }>
    y = local.f(d)
}
<domain: "local", opset_import: ["": 17]>
f (u) => (r) { l = Constant <value: tensor = float[4] l {9, 8, 7, 6}> ()  r = Add(u, l) }
"""


def with_data_everywhere(folder: Path, *, more: bool = False) -> Path:
    """A model with data in one file that an initializer, nodes, bodies and a function refer to.

    `more` has a sparse weight and training information refer to it, too, which no runtime reads.
    """
    model, path = parsed(EVERYWHERE), folder / "everywhere.onnx"
    if more:
        values, places = (numpy_helper.from_array(np.arange(2, dtype=kind), kind.__name__) for kind in (np.float32, np.int64))
        model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [4]))
        constant = onnx.helper.make_node("Constant", [], ["s"], sparse_value=model.graph.sparse_initializer[0])
        model.graph.node.insert(0, constant)
        model.training_info.add().initialization.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "z"))
    data = b"what no model refers to"
    for tensor in external_data.tensors_of(model):
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
        for key, value in (("location", "all.weights"), ("offset", len(data)), ("length", len(tensor.raw_data))):
            tensor.external_data.add(key=key, value=str(value))
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
    (folder / "all.weights").write_bytes(data)
    path.write_bytes(model.SerializeToString())
    return path


def locations(path: Path) -> list[str]:
    """For each tensor of a model the file that its data are in, "" for the model itself."""
    tensors = external_data.tensors_of(onnx.load(path, load_external_data=False))
    return sorted("".join(entry.value for entry in tensor.external_data if entry.key == "location") for tensor in tensors)


def ran(path: Path, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a model in onnx.reference."""
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(onnx.load(path))
    return dict(zip(session.output_names, session.run(None, feed), strict=True))
