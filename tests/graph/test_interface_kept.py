"""What callers see of a model stays: no input appears for a constant that a rule made, and a model without outputs is left."""

from __future__ import annotations

import onnx
import pytest

import rewriter
from rewriter.core.graph.tidy import tidy

LISTED = "g (float[2,3] x, float[3] w) => (float[2,3] y) <float[3] w = {1, 2, 3}> { n = Neg(w)  y = Add(x, n) }"


@pytest.mark.parametrize("ir_version, inputs", [(8, {"x"}), (3, {"x", "n_value"})])
def test_a_new_constant_is_listed_as_an_input_only_where_the_format_wants_it(ir_version: int, inputs: set[str]) -> None:
    proto = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": 13]> {LISTED}')
    model = rewriter.Model.from_proto(proto)
    assert rewriter.rewrite(model.graph, rewriter.load_rules().select(["OPT047"])).counts == {"OPT047": 1}
    assert {value.name for value in model.to_proto().graph.input} == inputs


def test_tidying_leaves_a_model_without_outputs_as_it_is() -> None:
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => () { y = Neg(x) }')
    model = rewriter.Model.from_proto(proto)
    assert tidy(model.graph).nodes == 0
    assert model.to_proto() == proto
