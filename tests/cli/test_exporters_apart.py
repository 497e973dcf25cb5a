"""What is meant for one exporter leaves the models of the others alone, unless the defect shows itself beyond doubt."""

from __future__ import annotations

import json
from pathlib import Path

from rewriter.rule_tools.load_rules import load_rules
from tests.cli.call import MODELS, Call


def test_rules_of_one_exporter_fire_in_its_models_only(call: Call) -> None:
    rules = {rule.code: rule for rule in load_rules()}
    models = json.loads(call("check", MODELS, "--format", "json", "--runtime", "no").out)["models"]
    assert len(models) >= 7
    for model in models:
        origin = Path(model["path"]).relative_to(MODELS).parts[0].split("-")[0]
        writer = {"transformers": "pytorch", "keras": "tensorflow", "tflite": "tensorflow", "nnabla": "nnabla-onnx"}.get(
            origin, origin
        )
        for code in model["counts"]:
            # A rule without an exporter in its header is about what no correct model of any exporter has.
            assert writer in rules[code].exporters or not rules[code].exporters, (model["path"], code)
