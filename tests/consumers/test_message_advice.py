"""Error messages of consumers, as users quote them in threads, lead to a rule or to what to do."""

from __future__ import annotations

import json

import pytest

from rewriter.trust.consumers.target_recipes import advice_on
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
        (
            "ValueError: The If('') will cause the graph to be a dynamic graph! Remove it manually and try again!",
            "RKNN",
            "--static",
        ),
        (
            "FAIL : This session contains graph nodes that are assigned to the default CPU EP, but fallback to CPU EP has been "
            "explicitly disabled by the user.",
            "QNN",
            "rewriter opset net.onnx 22",
        ),
        ("QNN Does not have support for 6D tensors", "QNN", "TGT046"),
        (
            "UnsupportedShuffleLayerError in op /model.22/dfl/Transpose: Failed to determine type of layer to create in node",
            "Hailo",
            "extract",
        ),
        (
            "error: failed to legalize operation 'torch.operator' that was explicitly marked illegal : onnx.Gather",
            "IREE",
            "opset",
        ),
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


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('fatal error: Unsupported operator "ReduceSumSquare"', "TGT059"),
        (
            "Cannot infer squeeze dimensions from a dynamic shape! Please re-export your model with the Squeeze axes input",
            "TGT007",
        ),
        ("Your ONNX model has been generated with INT64 weights, while TensorRT does not natively support INT64.", "TGT053"),
        ("All UINT8 inputs must directly feed into a cast layer", "TGT027"),
        ("Unsupported ONNX data type: UINT8 (2)", "TGT028"),
        ("[NORMALIZATION]-[group_norm_default]: scale dimensions not compatible for normalization)", "TGT043"),
        ('Assertion failed: (node.output().size() <= 1) && "Node has more output tensors than TRT expected."', "TGT071"),
        ("INVALID_ARGUMENT: getPluginCreator could not find plugin ScatterND version 1", "TGT048"),
        ("Type parameter (T) of Optype (Clip) bound to different types (tensor(float16) and tensor(float)", "TYP050"),
        ("No Op registered for Gelu with domain_version of 17", "HYG006"),
    ],
)
def test_rules_for_consumers_are_found_by_their_messages(call: Call, message: str, code: str) -> None:
    done = call("rules", "--symptom", message)
    assert done.code == 0 and code in done.out


def test_a_shuffle_of_five_axes_is_no_clip(call: Call) -> None:
    assert "TGT021" not in call("rules", "--symptom", "5-D shuffle Transpose ShuffleNet channel shuffle").out
