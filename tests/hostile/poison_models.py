"""Models of a few kilobytes that stand for more than any machine holds or ends in a lifetime, and what else is meant to hurt.

Each is written by a function named after what it does. Where nothing is said against it, the nodes of a model stand in the wrong
order, so that a rule fires and every judge is asked about the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
POISON: dict[str, Callable[[Path], None]] = {}
"""By name: writes NAME.onnx, and what belongs to it, into a folder."""


def poison(make: Callable[[Path], None]) -> Callable[[Path], None]:
    POISON[make.__name__.replace("_", "-")] = make
    return make


def write_all(folder: Path) -> list[Path]:
    """Every poison model in a folder; its files."""
    for make in POISON.values():
        make(folder)
    return [folder / f"{name}.onnx" for name in POISON]


def sick_model() -> ModelProto:
    """One that is merely to be repaired."""
    return _disordered([helper.make_node("Relu", ["m"], ["z"])])


# --- functions -------------------------------------------------------------------------------------------------------------


def _function(name: str, nodes: list[NodeProto], imports: list[onnx.OperatorSetIdProto]) -> FunctionProto:
    return helper.make_function("f", name, ["x"], ["y"], nodes, imports)


def _doubling(depth: int) -> ModelProto:
    """Each function calls the one before it twice: the last one stands for 2**depth nodes."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    functions = [_function("f0", [helper.make_node("Relu", ["x"], ["y"])], imports)]
    for number in range(1, depth + 1):
        calls = [(["x"], ["t"]), (["t"], ["y"])]
        nodes = [helper.make_node(f"f{number - 1}", *ends, domain="f") for ends in calls]
        functions.append(_function(f"f{number}", nodes, imports))
    return _disordered([helper.make_node(f"f{depth}", ["m"], ["z"], domain="f")], functions=functions)


@poison
def functions_doubled_18_times(folder: Path) -> None:
    onnx.save(_doubling(18), folder / "functions-doubled-18-times.onnx")


@poison
def functions_doubled_40_times(folder: Path) -> None:
    onnx.save(_doubling(40), folder / "functions-doubled-40-times.onnx")


@poison
def functions_in_a_chain(folder: Path) -> None:
    """60,000 functions, each calling the one before it once."""
    imports = [helper.make_opsetid("f", 1)]
    functions = [_function("f0", [helper.make_node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 17)])]
    functions += [
        _function(f"f{i}", [helper.make_node(f"f{i - 1}", ["x"], ["y"], domain="f")], imports) for i in range(1, 60_000)
    ]
    model = _disordered([helper.make_node("f59999", ["m"], ["z"], domain="f")], functions=functions)
    onnx.save(model, folder / "functions-in-a-chain.onnx")


# --- sizes -----------------------------------------------------------------------------------------------------------------


def _concats(times: int) -> list[NodeProto]:
    names = ["one", *(f"c{i}" for i in range(times))]
    return [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names)]


def _concatenated(times: int) -> ModelProto:
    nodes = [
        *_concats(times),
        helper.make_node("ReduceMax", [f"c{times - 1}"], ["r"], keepdims=0),
        helper.make_node("Add", ["m", "r"], ["z"]),
    ]
    return _disordered(nodes, {"one": np.ones(1, np.float32)})


@poison
def concat_doubled_28_times(folder: Path) -> None:
    onnx.save(_concatenated(28), folder / "concat-doubled-28-times.onnx")


@poison
def concat_doubled_40_times(folder: Path) -> None:
    onnx.save(_concatenated(40), folder / "concat-doubled-40-times.onnx")


@poison
def range_to_2_62(folder: Path) -> None:
    constants = {"from": np.int64(0), "to": np.int64(2**62), "by": np.int64(1)}
    nodes = [
        helper.make_node("Range", ["from", "to", "by"], ["r"]),
        helper.make_node("ReduceMax", ["r"], ["top"], keepdims=0),
        helper.make_node("Cast", ["top"], ["f"], to=FLOAT),
        helper.make_node("Add", ["m", "f"], ["z"]),
    ]
    onnx.save(_disordered(nodes, constants), folder / "range-to-2-62.onnx")


@poison
def constant_of_2_31(folder: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["c"]),
        helper.make_node("ReduceMax", ["c"], ["r"], keepdims=0),
        helper.make_node("Add", ["m", "r"], ["z"]),
    ]
    onnx.save(_disordered(nodes, {"size": np.array([2**31], np.int64)}), folder / "constant-of-2-31.onnx")


@poison
def expand_to_2_36(folder: Path) -> None:
    nodes = [
        helper.make_node("Expand", ["x", "size"], ["e"]),
        helper.make_node("ReduceMax", ["e"], ["r"], keepdims=0),
        helper.make_node("Add", ["m", "r"], ["z"]),
    ]
    onnx.save(_disordered(nodes, {"size": np.array([2**34, 1], np.int64)}), folder / "expand-to-2-36.onnx")


@poison
def sizes_without_end(folder: Path) -> None:
    """What an Expand expands to, of which nothing is there but its length."""
    model = _disordered([helper.make_node("Expand", ["x", "size"], ["e"]), helper.make_node("Identity", ["m"], ["z"])])
    model.graph.initializer.append(TensorProto(name="size", data_type=TensorProto.INT64, dims=[2**31]))
    onnx.save(model, folder / "sizes-without-end.onnx")


@poison
def dims_of_0_and_2_62(folder: Path) -> None:
    model = _disordered([helper.make_node("Identity", ["m"], ["z"]), helper.make_node("Shape", ["empty"], ["s"])])
    model.graph.initializer.append(TensorProto(name="empty", data_type=FLOAT, dims=[0, 2**62], raw_data=b""))
    onnx.save(model, folder / "dims-of-0-and-2-62.onnx")


@poison
def inputs_of_2_62(folder: Path) -> None:
    model = _disordered([helper.make_node("Identity", ["m"], ["z"])])
    model.graph.input.append(helper.make_tensor_value_info("wide", FLOAT, [0, 2**62]))
    model.graph.input.append(helper.make_tensor_value_info("wider", FLOAT, [2**62, 2**62]))
    onnx.save(model, folder / "inputs-of-2-62.onnx")


@poison
def endless_loop(folder: Path) -> None:
    """Nothing is large, but it never comes back."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["t"], ["u"]), helper.make_node("Neg", ["a"], ["o"])],
        "body",
        [_value("i", INT64, []), _value("t", BOOL, []), _value("a", FLOAT, [4])],
        [_value("u", BOOL, []), _value("o", FLOAT, [4])],
    )
    nodes = [helper.make_node("Loop", ["", "true", "m"], ["z"], body=body)]
    onnx.save(_disordered(nodes, {"true": np.array(True)}), folder / "endless-loop.onnx")


@poison
def many_loops(folder: Path) -> None:
    """Loops inside of each other, 2**62 rounds each."""
    body: GraphProto | None = None
    for level in range(12):
        inner = [helper.make_node("Neg", [f"a{level}"], [f"o{level}"])]
        if body is not None:
            inner = [helper.make_node("Loop", ["rounds", "", f"a{level}"], [f"o{level}"], body=body)]
        body = helper.make_graph(
            [*inner, helper.make_node("Identity", [f"t{level}"], [f"u{level}"])],
            f"body{level}",
            [_value(f"i{level}", INT64, []), _value(f"t{level}", BOOL, []), _value(f"a{level}", FLOAT, [4])],
            [_value(f"u{level}", BOOL, []), _value(f"o{level}", FLOAT, [4])],
        )
    nodes = [helper.make_node("Loop", ["rounds", "", "m"], ["z"], body=body)]
    onnx.save(_disordered(nodes, {"rounds": np.int64(2**62)}), folder / "many-loops.onnx")


# --- data beside the model -------------------------------------------------------------------------------------------------


def _external(tensor: TensorProto, location: str, **more: int) -> TensorProto:
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


@poison
def sparse_external_data(folder: Path) -> None:
    """2**34 floats in a file that takes no room."""
    with open(folder / "sparse.bin", "wb") as file:
        file.truncate(2**36)
    nodes = [helper.make_node("ReduceMax", ["w"], ["r"], keepdims=0), helper.make_node("Add", ["m", "r"], ["z"])]
    model = _disordered(nodes)
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2**34])
    model.graph.initializer.append(_external(tensor, "sparse.bin", offset=0, length=2**36))
    onnx.save(model, folder / "sparse-external-data.onnx")


@poison
def locations_of_100_000_characters(folder: Path) -> None:
    model = _disordered([helper.make_node("Add", ["m", "w"], ["z"])])
    model.graph.initializer.append(_external(TensorProto(name="w", data_type=FLOAT, dims=[4]), "a/" * 50_000))
    onnx.save(model, folder / "locations-of-100-000-characters.onnx")


# --- names -----------------------------------------------------------------------------------------------------------------


@poison
def equal_names(folder: Path) -> None:
    """8,000 nodes with one name, and as many tensors with one."""
    nodes = [helper.make_node("Neg", ["m"], ["same"], name="same") for _ in range(8_000)]
    onnx.save(_disordered([*nodes, helper.make_node("Abs", ["same"], ["z"])]), folder / "equal-names.onnx")


@poison
def names_that_are_not_utf_8(folder: Path) -> None:
    model = _disordered([helper.make_node("Relu", ["m"], ["QQQQ"], name="WWWW"), helper.make_node("Abs", ["QQQQ"], ["z"])])
    data = model.SerializeToString().replace(b"QQQQ", b"\xff\xfe\x80Q").replace(b"WWWW", b"\xc3(\xa0\xa1")
    (folder / "names-that-are-not-utf-8.onnx").write_bytes(data)


@poison
def operators_that_are_not_utf_8(folder: Path) -> None:
    model = _disordered([helper.make_node("QQQQ", ["m"], ["o"]), helper.make_node("Abs", ["o"], ["z"])])
    data = model.SerializeToString().replace(b"QQQQ", b"\xff\xfe\x80Q")
    (folder / "operators-that-are-not-utf-8.onnx").write_bytes(data)


@poison
def opset_of_2_62(folder: Path) -> None:
    model = _disordered([helper.make_node("Cast", ["m"], ["z"], to=FLOAT)])
    model.opset_import[0].version = 2**62
    onnx.save(model, folder / "opset-of-2-62.onnx")


@poison
def names_of_a_megabyte(folder: Path) -> None:
    name = "n" * 2**20
    nodes = [helper.make_node("Relu", ["m"], [name], name=name), helper.make_node("Abs", [name], ["z"], name=name)]
    onnx.save(_disordered(nodes), folder / "names-of-a-megabyte.onnx")


@poison
def names_that_steer_a_terminal(folder: Path) -> None:
    name = "\x1b]0;owned\x07\x1b[2J::error file=x::\r\n<script>"
    nodes = [helper.make_node("Relu", ["m"], [name], name=name), helper.make_node("Abs", [name], ["z"], name=name)]
    onnx.save(_disordered(nodes), folder / "names-that-steer-a-terminal.onnx")


# --- what judges bear badly ------------------------------------------------------------------------------------------------


@poison
def experimental_operator(folder: Path) -> None:
    """ONNX prints a warning of it."""
    nodes = [helper.make_node("ParametricSoftplus", ["m"], ["z"], alpha=1.0, beta=2.0)]
    onnx.save(_disordered(nodes), folder / "experimental-operator.onnx")


@poison
def division_by_zero(folder: Path) -> None:
    """Ends the process in some versions of ONNX Runtime."""
    nodes = [
        helper.make_node("Cast", ["m"], ["i"], to=TensorProto.INT32),
        helper.make_node("Sub", ["i", "i"], ["zero"]),
        helper.make_node("Mod", ["i", "zero"], ["d"]),
        helper.make_node("Cast", ["d"], ["z"], to=FLOAT),
    ]
    onnx.save(_disordered(nodes), folder / "division-by-zero.onnx")


@poison
def bodies_24_deep(folder: Path) -> None:
    """Ifs inside of each other, near what protobuf reads."""
    body = _branch([helper.make_node("Neg", ["m"], ["b"])], "b")
    for level in range(24):
        body = _branch(
            [helper.make_node("If", ["true"], [f"b{level}"], then_branch=body, else_branch=body)]
            if level < 9
            else [
                helper.make_node(
                    "If",
                    ["true"],
                    [f"b{level}"],
                    then_branch=body,
                    else_branch=_branch([helper.make_node("Abs", ["m"], ["e"])], "e"),
                )
            ],
            f"b{level}",
        )
    nodes = [
        helper.make_node(
            "If", ["true"], ["z"], then_branch=body, else_branch=_branch([helper.make_node("Abs", ["m"], ["e"])], "e")
        )
    ]
    onnx.save(_disordered(nodes, {"true": np.array(True)}), folder / "bodies-24-deep.onnx")


def _branch(nodes: list[NodeProto], output: str) -> GraphProto:
    return helper.make_graph(nodes, "branch", [], [_value(output, FLOAT, [4])])


# --- files beside the model ------------------------------------------------------------------------------------------------


def _symbols() -> Iterator[tuple[str, bytes]]:
    nodes = [{"op": "null", "name": "x", "inputs": []}]
    yield "nested", b"[" * 200_000
    yield (
        "nested-attributes",
        json.dumps(
            {
                "nodes": [{"op": "Pooling", "name": "p", "attrs": {"kernel": "(" * 100_000}, "inputs": [[0, 0, 0]]}],
                "heads": [[0, 0, 0]],
            }
        ).encode(),
    )
    yield "number", b'{"nodes": [], "arg_nodes": [' + b"9" * 100_000 + b"]}"
    yield (
        "circle",
        json.dumps(
            {"nodes": [{"op": "Activation", "name": "a", "inputs": [[0, 0, 0]]}], "arg_nodes": [], "heads": [[0, 0, 0]]}
        ).encode(),
    )
    yield (
        "outside",
        json.dumps(
            {"nodes": [*nodes, {"op": "Activation", "name": "a", "inputs": [[2**70, -1, {}]]}], "heads": "x", "attrs": 3}
        ).encode(),
    )
    yield "not-utf-8", b'{"nodes": [{"op": "null", "name": "\xff\xfe"}]}'
    yield "surrogates", b'{"nodes": [{"op": "null", "name": "\\ud800", "inputs": []}], "heads": [[0,0,0]]}'
    yield "infinite", b'{"nodes": [{"op": "null", "name": "x", "inputs": [[NaN, Infinity, 1e999]]}]}'


def _hostile_symbols() -> None:
    for name, text in _symbols():

        def make(folder: Path, name: str = name, text: bytes = text) -> None:
            model = _disordered([helper.make_node("Relu", ["m"], ["z"], name="a")])
            model.producer_name = ""
            onnx.save(model, folder / f"symbol-{name}.onnx")
            (folder / f"symbol-{name}-symbol.json").write_bytes(text)

        POISON[f"symbol-{name}"] = make


_hostile_symbols()

# --- parts -----------------------------------------------------------------------------------------------------------------


def _value(name: str, dtype: int, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _disordered(
    nodes: list[NodeProto],
    constants: dict[str, np.ndarray | np.generic] | None = None,
    functions: list[FunctionProto] | None = None,
) -> ModelProto:
    """x -> m -> the nodes -> z, with the first node behind the others."""
    graph = helper.make_graph(
        [*nodes, helper.make_node("Neg", ["x"], ["m"])],
        "g",
        [_value("x", FLOAT, [4])],
        [_value("z", FLOAT, [4])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", 17), *([helper.make_opsetid("f", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=imports, functions=functions or [], ir_version=8)
