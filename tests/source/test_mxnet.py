"""Symbol files of every layout, and the join of their nodes with ONNX nodes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rewriter.core.errors import RewriterError
from rewriter.core.framework.source_info import Missing, SourceInfo
from rewriter.trust.source.find import find, load_source


def symbol(tmp_path: Path, nodes: list[object], **more: object) -> SourceInfo:
    path = tmp_path / "m-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, **more}))
    return load_source(path)


def node(op: str, name: str, attrs: dict[str, str] | None = None, inputs: object = (), key: str = "attrs") -> dict[str, object]:
    return {"op": op, "name": name, "inputs": list(inputs), key: attrs or {}}  # type: ignore[call-overload]


@pytest.mark.parametrize("key", ["attr", "attrs", "param"])
def test_attributes_under_every_key(tmp_path: Path, key: str) -> None:
    info = symbol(tmp_path, [node("Pooling", "p", {"kernel": "(3L, 3L)"}, key=key)])
    assert info.attribute("p", "kernel", [1]) == [3, 3]


def test_the_oldest_layout_has_parameters_beside_hints(tmp_path: Path) -> None:
    old = {
        "op": "BatchNorm",
        "param": {"fix_gamma": "True", "eps": "1e-3"},
        "name": "bn",
        "attr": {"lr_mult": "2"},
        "inputs": [],
    }
    info = symbol(tmp_path, [old | {"backward_source_id": -1}], heads=[[0, 0]])
    assert info.attribute("bn", "fix_gamma", False) is True
    assert info.attribute("bn", "eps", 0.0) == 0.001
    assert info.attribute("bn", "lr_mult") == 2
    assert info.heads == (("bn", 0),)


def test_edges_keep_output_indices(tmp_path: Path) -> None:
    nodes = [
        node("null", "data"),
        node("SliceChannel", "sp", {"num_outputs": "3"}, [[0, 0]]),
        node("Add", "a", inputs=[[1, 2, 0], [1, 0, 7]]),
    ]
    info = symbol(tmp_path, nodes, heads=[[2, 0, 0]], attrs={"mxnet_version": ["int", 10301]})
    assert info.source_input("a", 0) == ("sp", 2)
    assert info.source_input("a", 2) is None
    assert info.source_input("nobody", 0) is None
    assert info.output_count("sp") == 3
    assert info.output_count("a") == 1
    assert info.version == "1.3.1"


def test_why_there_is_no_value(tmp_path: Path) -> None:
    info = symbol(tmp_path, [node("BatchNorm", "bn", {"eps": "high"})])
    assert info.attribute("bn", "fix_gamma", True) is Missing.ATTRIBUTE
    assert info.attribute("other", "fix_gamma", True) is Missing.NODE
    assert info.attribute("bn", "eps", 1.0) is Missing.VALUE


@pytest.mark.parametrize(
    ("version", "name", "outputs", "expected"),
    [
        (10301, "fc1", ["fc1"], "fc1"),
        (10301, "", ["fc1"], "fc1"),
        (10901, "", ["fc1_gemm"], "fc1"),
        (10901, "", ["fc1dim_minus_1"], "fc1"),
        (10901, "", ["fc1_2_gemm"], "fc1_2"),
        (10301, "", ["fc1_gemm"], None),
        (10901, "", ["rnninitial_h"], "rnn"),
        (10901, "", ["rnninitial_c"], "rnn"),
        (10901, "", ["rnn0_t"], "rnn"),
        (10901, "", ["rnn2"], "rnn"),
        (10901, "", ["rnn3"], None),
        (10901, "", ["sp1"], "sp"),
        (10901, "", ["sp00_"], "sp"),
        (10901, "", ["sp7"], None),
        (10901, "", ["tk0", "tk_"], "tk"),
        (10301, "data", ["data"], None),
        (10501, "flatten_3", ["flatten_3"], None),
        (10901, "", [""], None),
        (10901, "", [], None),
    ],
)
def test_join(tmp_path: Path, version: int, name: str, outputs: list[str], expected: str | None) -> None:
    nodes = [
        node("null", "data"),
        node("FullyConnected", "fc1", inputs=[[0, 0, 0]]),
        node("FullyConnected", "fc1_2", inputs=[[1, 0, 0]]),
        node("SliceChannel", "sp", {"num_outputs": "2"}),
        node("topk", "tk"),
        node("RNN", "rnn", {"mode": "lstm", "state_outputs": "True"}),
    ]
    assert symbol(tmp_path, nodes, attrs={"mxnet_version": ["int", version]}).node_for(name, outputs) == expected


def test_names_that_occur_twice(tmp_path: Path) -> None:
    nodes = [node("Activation", "act", {"act_type": "relu"}), node("Activation", "act", {"act_type": "tanh"})]
    old = symbol(tmp_path, nodes)
    assert old.node_for("act", ["act"]) is None
    new = symbol(tmp_path, nodes, attrs={"mxnet_version": ["int", 10901]})
    assert new.attribute(new.node_for("act", ["act"]) or "", "act_type", "") == "relu"
    assert new.attribute(new.node_for("idx_1_act", ["idx_1_act"]) or "", "act_type", "") == "tanh"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "neither a symbol file nor a table"),
        ('{"nodes": [3]}', "node 0 of the symbol file has no name"),
        ('{"nodes": [{"name": "a", "attrs": [1]}]}', "`attrs` of node 'a' is not a JSON object"),
        ('{"nodes": [{"name": "a", "inputs": [[4, 0]]}]}', "is not [node, output]"),
        ('{"nodes": [{"name": "a", "inputs": [[0]]}]}', "is not [node, output]"),
        ('{"nodes": [{"name": "a", "inputs": 3}]}', "are not a list"),
        ('{"nodes": [], "heads": [[true, 0]]}', "is not [node, output]"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "symbol.json"
    path.write_text(text)
    with pytest.raises(RewriterError) as caught:
        load_source(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_what_is_no_file_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"a": {"b": "\xff"}}')
    for path, message in (
        (tmp_path / "none.json", "no such"),
        (tmp_path, "not a file"),
        (tmp_path / "latin.json", "not UTF-8"),
    ):
        with pytest.raises(RewriterError, match=message):
            load_source(path)


def test_the_file_beside_the_model(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.touch()
    assert find(model) is None
    (tmp_path / "other-symbol.json").write_text("{}")
    assert find(model) == tmp_path / "other-symbol.json"
    (tmp_path / "second.onnx").touch()
    assert find(model) is None
    (tmp_path / "symbol.json").write_text("{}")
    assert find(model) is None  # it would be handed to every model of its folder
    (tmp_path / "second.onnx").unlink()
    assert find(model) == tmp_path / "symbol.json"
    (tmp_path / "net.fixed.onnx").touch()
    assert find(model) == find(tmp_path / "net.fixed.onnx") == tmp_path / "symbol.json"
    (tmp_path / "net-symbol.json").write_text("{}")
    assert find(model) == tmp_path / "net-symbol.json"
    assert find(tmp_path / "net.fixed.onnx") == tmp_path / "net-symbol.json"


def test_a_folder_that_was_listed_is_listed_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").touch()
    os.utime(tmp_path, ns=(0, 0))
    assert find(tmp_path / "net.onnx") is None
    (tmp_path / "other-symbol.json").touch()
    assert find(tmp_path / "net.onnx") == tmp_path / "other-symbol.json"
    (tmp_path / "b.onnx").touch()
    assert find(tmp_path / "net.onnx") is None
