"""Error messages of consumers, as users quote them in threads, lead to a rule or to what to do."""

from __future__ import annotations

import json

import pytest

from rewriter.trust.consumers.message_advice import advice_on
from tests.cli.conftest import Call


@pytest.mark.parametrize(
    ("message", "consumer", "command"),
    [
        ("xx: Impossible to unify Sym(DynamicDimension.0) with Val(1).", "tract", "--target tract --static"),
        (
            "/bb/If_OutputLayer: IIfConditionalOutputLayer inputs must have the same shape. Shapes are [2] and [1].",
            "TensorRT",
            "optimize",
        ),
        (
            "Unexpected: CPU plug-in doesn't support Squeeze operation with dynamic rank. Operation name: /model/Squeeze",
            "OpenVINO",
            "TGT007",
        ),
        ("E load_onnx: Unsupport onnx opset 23, need <= 19!", "RKNN", "rewriter opset"),
        ("E RKNN: [10:47:25.873] ERROR: unsupport Einsum op in current", "RKNN", "matmul"),
        ('ValueError: Core ML only supports tensors with rank <= 5. Layer "x.7", with type "reshape"', "Core ML", "TGT046"),
    ],
)
def test_what_to_do(message: str, consumer: str, command: str) -> None:
    (one,) = advice_on(message)
    assert one.consumer == consumer and command in one.advice and one.thread.startswith("https://")


def test_the_command_prints_it(call: Call) -> None:
    done = call("rules", "--symptom", "Impossible to unify Sym(N) with Val(2).")
    assert done.code == 0 and "tract: " in done.out and "SK004" not in done.out
    found = json.loads(call("rules", "--symptom", "Unsupport onnx opset 23, need <= 19", "--format", "json").out)
    assert [one["consumer"] for one in found["advice"]] == ["RKNN"]


@pytest.mark.parametrize("message", ["First input does not have rank 2", "cannot unify", "Unsupported model IR version: 11"])
def test_other_messages_have_none(message: str, call: Call) -> None:
    assert advice_on(message) == []


def test_rules_for_consumers_are_found_by_their_messages(call: Call) -> None:
    assert "TGT059" in call("rules", "--symptom", 'fatal error: Unsupported operator "ReduceSumSquare"').out
    assert "TGT021" not in call("rules", "--symptom", "5-D shuffle Transpose ShuffleNet channel shuffle").out
