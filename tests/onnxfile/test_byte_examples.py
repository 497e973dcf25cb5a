"""The bytes in the docstrings of the modules that cut and splice them are what these modules make of them."""

from __future__ import annotations

import doctest
import os
import tempfile
from types import ModuleType

import onnx
import pytest

from rewriter.core.onnxfile import columns, model_file, wire


@pytest.mark.parametrize("module", [wire, columns, model_file], ids=lambda module: module.__name__)
def test_the_example_of_a_module(module: ModuleType) -> None:
    found = doctest.testmod(module, extraglobs={"os": os, "tempfile": tempfile}, report=True)
    assert found.attempted >= 3
    assert not found.failed


def test_the_bytes_are_those_that_onnx_writes() -> None:
    relu, neg = (
        onnx.NodeProto(op_type="Relu", input=["x"], output=["y"]),
        onnx.NodeProto(op_type="Neg", input=["y"], output=["z"]),
    )
    graph = onnx.GraphProto(node=[relu, neg], name="g").SerializeToString().hex()
    assert graph in (columns.__doc__ or "").replace(" ", "")
    weights = onnx.TensorProto(raw_data=bytes(4096))
    model = onnx.ModelProto(graph=onnx.GraphProto(initializer=[weights])).SerializeToString()
    assert model.hex()[:18] in (model_file.__doc__ or "").replace(" ", "")
