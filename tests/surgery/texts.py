"""Small models that tools for surgery break: bodies that capture, functions within functions, data in other files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

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


def ran(path: Path, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a model in onnx.reference."""
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(onnx.load(path))
    return dict(zip(session.output_names, session.run(None, feed), strict=True))
