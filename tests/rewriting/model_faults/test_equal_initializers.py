"""`model.copied_initializers`: also what rules have made of constants counts."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

import rewriter

TEXT = """<ir_version: 8, opset_import: ["": 17]>
  g (float[2,16] x) => (float[2,8] y) {
    t = Transpose<perm=[1, 0]>(w)  a = MatMul(x, t)  b = MatMul(x, u)  y = Add(a, b) }
"""


def test_a_weight_that_a_rule_has_made_is_shared_as_well() -> None:
    """It is written as an initializer, though it is none of those that were read. It is made after the rules on the model were
    asked, by a rule of the same phase.
    """
    model = onnx.parser.parse_model(TEXT)
    weight = np.arange(128, dtype=np.float32).reshape(8, 16)
    arrays = {"w": weight, "u": np.ascontiguousarray(weight.T)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    done = rewriter.fix(model, rules=rewriter.load_rules().select(["OPT047", "HYG025"]))
    assert done.log.counts == {"OPT047": 1, "HYG025": 1}
    assert len(done.model.to_proto().graph.initializer) == 1
