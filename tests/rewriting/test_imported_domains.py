"""A domain that a model does not import yet: a rule, a repair and an edit import it under the same version.

The version is the newest that the ir_version of the model allows and that has the operator in the form of the node.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import new_node
from rewriter.trust.proof.oracles import newest_opset
from tests.engine.helpers import rewrite_model

TREES = """nodes_falsenodeids=[2,0,0], nodes_featureids=[0,0,0], nodes_modes=["BRANCH_LEQ","LEAF","LEAF"], nodes_nodeids=[0,1,2],
    nodes_treeids=[0,0,0], nodes_truenodeids=[1,0,0], nodes_values=[0.5,0.0,0.0], n_targets=1, target_ids=[0,0],
    target_nodeids=[1,2], target_treeids=[0,0], target_weights=[1.0,2.0]"""
NODES = {
    "regressor": f"TreeEnsembleRegressor<{TREES}>(x)",
    "scaler": "Scaler<offset=[0.0], scale=[2.0]>(x)",
    "labels": "LabelEncoder<keys_floats=[0.0, 1.0], values_floats=[5.0, 6.0]>(x)",
}
EXPECTED = {"regressor": [1, 2], "scaler": [0, 2], "labels": [5, 6]}


def plain(ir_version: int, opset: int, node: str = "Neg(x)") -> onnx.ModelProto:
    head = f'<ir_version: {ir_version}, opset_import: ["": {opset}]>'
    return parser.parse_model(f"{head} g (float[2,1] x) => (float[2,1] y) {{ y = {node} }}")


@pytest.mark.parametrize(
    ("node", "ir_version", "opset", "version"),
    [
        ("regressor", 4, 9, 1),
        ("regressor", 8, 17, 3),
        ("regressor", 10, 21, 4),  # 5 is allowed; the operator is deprecated there
        ("scaler", 8, 17, 3),
        ("scaler", 10, 21, 5),
        ("labels", 4, 9, 2),  # 1 is the newest of its time; the operator has other attributes there
        ("labels", 8, 17, 3),
    ],
)
def test_a_rule_writes_an_operator_of_a_domain_that_is_not_imported(
    node: str, ir_version: int, opset: int, version: int
) -> None:
    rule = f"rule X1 trees <kind: exact> match {{ y = Neg(x) }} rewrite {{ y = ai.onnx.ml.{NODES[node]} }}"
    proto = rewrite_model(plain(ir_version, opset), rule).proto
    assert {entry.domain: entry.version for entry in proto.opset_import}["ai.onnx.ml"] == version
    onnx.checker.check_model(proto, full_check=True)
    onnxruntime = pytest.importorskip("onnxruntime")
    if opset > newest_opset():
        pytest.skip("ONNX Runtime is older")
    [found] = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": np.float32([[0], [1]])})
    assert found.ravel().tolist() == EXPECTED[node]


def test_an_edit_writes_an_operator_of_a_domain_that_is_not_imported() -> None:
    model = Model.from_proto(plain(10, 21))
    model.graph.nodes.append(new_node("TreeEnsembleRegressor", "ai.onnx.ml", "", {}, model.graph.inputs[:], []))
    assert {entry.domain: entry.version for entry in model.to_proto().opset_import}["ai.onnx.ml"] == 4


def test_a_missing_import_is_one_that_has_the_operator() -> None:
    """TreeEnsemble came with version 5, which is newer than the model's ir_version."""
    rule = """rule X1 imports <kind: repair, evidence: refused> match graph { } where model.missing_imports != [] rewrite { mend model.missing_imports }"""
    proto = rewrite_model(plain(8, 17, "ai.onnx.ml.TreeEnsemble<n_targets=1>(x)"), rule).proto
    assert {entry.domain: entry.version for entry in proto.opset_import}["ai.onnx.ml"] == 5
