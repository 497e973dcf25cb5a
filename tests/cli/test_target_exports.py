"""Rules for consumers on real exports: what they are for fires, and the framework's numbers still come out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.call import MODELS, Call

EXPORTS = {
    "mxnet-1.9.1-clip": ("opencv", {"TGT021"}),
    "mxnet-1.9.1-norm-l1": ("rknn", {"TGT048"}),
    "pytorch-2.13-avgpool-last-window-legacy-op11": ("onnxruntime", {"TGT019"}),
    "pytorch-2.13-l2-normalize-legacy-op11": ("tensorrt", {"TGT003", "TGT034"}),
    "pytorch-2.13-pixel-shuffle-legacy-op9": ("qnn", {"TGT046", "TGT047"}),
    "pytorch-2.13-sdpa-mask-legacy-op17": ("tensorrt", {"TGT003", "TGT013"}),
    "pytorch-2.13-view-dynamo-op18": ("openvino", {"TGT001"}),
    "tensorflow-maxpool-same-op13": ("mnn", {"TGT017"}),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_export(call: Call, tmp_path: Path, name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    target, wanted = EXPORTS[name]
    path = MODELS / name / "model.onnx"
    done = call("fix", path, "-o", tmp_path / "out.onnx", "--select", "NONE", "--target", target, "--format", "json")
    assert done.code == 0, done.err
    assert {firing["rule"] for firing in json.loads(done.out)["models"][0]["firings"]} >= wanted
    with np.load(path.with_name("data.npz")) as data:
        feed = {key[3:]: data[key] for key in data.files if key.startswith("in_")}
        options = runtime.SessionOptions()
        if target == "onnxruntime" and int(runtime.__version__.split(".")[1]) < 31:  # its optimizer would undo TGT019
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        outputs = runtime.InferenceSession(tmp_path / "out.onnx", options).run(None, feed)
        for number, output in enumerate(outputs):
            np.testing.assert_allclose(output, data[f"out_{number}"], rtol=1e-4, atol=1e-5)


def test_nothing_of_this_happens_unasked(call: Call) -> None:
    for name in EXPORTS:
        found = json.loads(call("check", MODELS / name / "model.onnx", "--format", "json").out)["models"][0]["firings"]
        assert not [firing["rule"] for firing in found if firing["rule"].startswith("TGT")]
