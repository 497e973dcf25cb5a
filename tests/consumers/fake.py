"""Consumers that tests make up: a module of `runtimes` whose `read` and `run` are given as text."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import indent

import pytest
from onnx import TensorProto, helper, save

from rewriter.trust.consumers import asking
from rewriter.trust.consumers.consumer_verdict import Consumer

MODULE = """
import os, signal, time
import numpy as np
def version():
    return "Fake 1.0"
def read(path, outputs):
{read}
def run(model, feed, outputs):
{run}
"""
RELU = "return [np.maximum(feed['x'], 0)]"


def fake(patch: pytest.MonkeyPatch, folder: Path, read: str = "return path", run: str = RELU, more: str = "") -> Consumer:
    """Has `--ask fake` mean this consumer, which computes a Relu of x unless it is told otherwise."""
    folder.mkdir(exist_ok=True)
    (folder / "fake.py").write_text(more + MODULE.format(read=indent(read, "    "), run=indent(run, "    ")))
    patch.setattr(asking, "RUNTIMES", folder)
    return Consumer(str(folder / "fake.py"), "Fake 1.0", sys.executable)


def relu(path: Path, op: str = "Relu", batch: int | str = "N") -> Path:
    """A model with one node."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], name="node")], "g", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
