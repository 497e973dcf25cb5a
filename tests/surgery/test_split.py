"""`rewriter split`: the parts, run one after the other, give what the whole gives."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.core.errors import RewriterError
from rewriter.workbench.surgery.finish import Checks
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.split import Cuts, split
from tests.cli.call import MODELS, Call
from tests.surgery import texts


def ports(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    return [info.name for info in model.graph.input], [info.name for info in model.graph.output]


def test_skip_edges_and_captures_become_inputs(call: Call, tmp_path: Path) -> None:
    net = texts.written(tmp_path, texts.CAPTURES)
    done = call("split", net, "--at", "scaled", "--at", "chosen", "-o", tmp_path / "part{}.onnx")
    assert done.code == 0 and "return the same values as the whole model" in done.out, done.err
    assert "part 2: 2 nodes, 16 bytes of weights" in done.out
    parts = [onnx.load(tmp_path / f"part{number}.onnx") for number in (1, 2, 3)]
    for part in parts:
        onnx.checker.check_model(part, full_check=True)
    assert [ports(part) for part in parts] == [(["x"], ["scaled"]), (["c", "scaled"], ["chosen"]), (["chosen"], ["y"])]
    again = call("split", net, "--every", "1", "--dry-run")
    assert "part 3: 1 node" in again.out and "c, shifted, scaled -> chosen" in again.out
    assert call("merge", *(tmp_path / f"part{n}.onnx" for n in (1, 2, 3)), "-o", tmp_path / "whole.onnx").code == 0
    assert call("diff", net, tmp_path / "whole.onnx").out.count("spare") == 1  # read by nobody, and in no part


def test_constants_are_in_each_part_that_reads_them(call: Call, tmp_path: Path) -> None:
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]> g (float[2,4] x) => (float[2,4] y) <int64[2] s = {2, 4}> {
        k = Constant<value_float=2.0>()  w = Expand(k, s)  a = Mul(x, w)  b = Relu(a)  y = Add(b, w) }""",
    )
    assert call("split", net, "--at", "b", "-o", tmp_path / "part{}.onnx").code == 0
    second = onnx.load(tmp_path / "part2.onnx")
    assert ports(second) == (["b"], ["y"]) and [node.op_type for node in second.graph.node] == ["Constant", "Expand", "Add"]
    assert call("merge", tmp_path / "part1.onnx", tmp_path / "part2.onnx", "-o", tmp_path / "whole.onnx").code == 0
    assert call("diff", net, tmp_path / "whole.onnx").code == 0


def test_by_size_with_data_in_other_files(call: Call, tmp_path: Path) -> None:
    net = texts.with_data(tmp_path)
    done = call("split", net, "--max-size", "20000", "-o", tmp_path / "part{}.onnx")
    assert done.code == 0, done.err
    assert [(tmp_path / f"part{n}.onnx.data").stat().st_size for n in (1, 2, 3)] == [4096 * 4] * 3
    x = np.ones((1, 4096), np.float32)
    for number in (1, 2, 3):
        (x,) = texts.ran(tmp_path / f"part{number}.onnx", {"x" if number == 1 else f"t{number - 1}": x}).values()
    assert x.max() == 6
    assert "alone needs" in call("split", net, "--max-size", "1K", "--dry-run").err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--at", "y,m"], "no node is left after this cut"),
        (["--at", "b", "--at", "a"], "in the order of computation"),
        (["--at", "nothing"], "no tensor or node 'nothing'"),
        (["--at", "b", "-o", "part.onnx"], "{}"),
        (["--at", "b", "--every", "2"], "not allowed with"),
        (["--every", "0"], "positive"),
    ],
)
def test_one_line_says_what_is_wrong(call: Call, tmp_path: Path, arguments: list[str], words: str) -> None:
    net = texts.written(tmp_path, texts.CHAIN)
    done = call("split", net, *arguments, *(["--dry-run"] if "-o" not in arguments else []))
    assert done.code == 2 and words in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx"]


def test_nothing_is_written_where_a_part_exists(call: Call, tmp_path: Path) -> None:
    net = texts.written(tmp_path, texts.CHAIN)
    (tmp_path / "part2.onnx").write_text("mine")
    done = call("split", net, "--at", "b", "-o", tmp_path / "part{}.onnx")
    assert done.code == 2 and "part2.onnx exists" in done.err
    assert not (tmp_path / "part1.onnx").exists()


@pytest.mark.parametrize("path", sorted(MODELS.glob("pytorch-2*/model.onnx"))[::6], ids=lambda path: path.parent.name)
def test_real_exports(path: Path) -> None:
    try:
        done = split(Opened(path), Cuts(every=3), checks=Checks(stamp=False))
    except RewriterError as error:  # a cut at a tensor whose type ONNX cannot tell
        assert "is unknown; set it with --type" in str(error)
    else:
        assert done.same or done.notes


def test_a_transformer() -> None:
    path = MODELS / "transformers-hf-t5-legacy-op11-dyn" / "model.onnx"
    assert len(split(Opened(path), Cuts(every=300), checks=Checks(stamp=False)).parts) > 1


HEAD = """
/// Marks the beginning of a head.
rule ABC001 head
<kind: lossy, opset: 7..>
match {
  s = Sigmoid(x)
  y = Mul(x, s)
}
rewrite { y = x }
test "one" ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[2] a) => (float[2] b) { s = Sigmoid(a)  b = Mul(a, s) }
~~~ becomes ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[2] a) => (float[2] b) { b = Identity(a) }
~~~
"""


def test_a_cut_before_each_place_of_a_rule(call: Call, tmp_path: Path) -> None:
    rules = tmp_path / "head.rules"
    rules.write_text(HEAD)
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]> g (float[2,4] x) => (float[2,4] y) <float[4] w = {1, 2, 3, 4}> {
             a = Mul(x, w)  [s] b = Sigmoid(a)  [m] c = Mul(a, b)  d = Exp(c)  [t] e = Sigmoid(d)  [n] f = Mul(d, e)  y = Neg(f) }""",
    )
    done = call("split", net, "--rule", "abc001", "--rules", rules, "-o", tmp_path / "p{}.onnx")
    assert done.code == 0 and "return the same values as the whole model" in done.out, done.err
    parts = [[node.op_type for node in onnx.load(tmp_path / f"p{i}.onnx").graph.node] for i in (1, 2, 3)]
    assert parts == [["Mul"], ["Sigmoid", "Mul", "Exp"], ["Sigmoid", "Mul", "Neg"]]
    assert "no rule fires" in call("split", net, "--rule", "PT030", "--dry-run").err
    assert call("split", net, "--rule", "XY999", "--dry-run").code == 2
    assert "name with --rule" in call("split", net, "--every", "2", "--rules", rules, "--dry-run").err
    found = rewriter.load_rules([rules]).select(["ABC001"])
    assert len(rewriter.split(net, rules=found)) == 3


SPARSE = """<ir_version: 8, opset_import: ["": 17]>
  g (float[N,3] x) => (float[N,4] z) { [mm] y = MatMul(x, w)  z = Relu(y) }
"""


def test_sparse_weights_have_a_size(call: Call, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(SPARSE)
    sparse = model.graph.sparse_initializer.add(dims=[3, 4])
    sparse.values.CopyFrom(onnx.numpy_helper.from_array(np.float32([1, 2, 3]), "w"))
    sparse.indices.CopyFrom(onnx.numpy_helper.from_array(np.array([0, 5, 7])))
    onnx.save(model, tmp_path / "net.onnx")
    done = call("split", tmp_path / "net.onnx", "--every", "1", "-o", tmp_path / "part{}.onnx")
    assert done.code == 0 and "part 1: 1 node, 36 bytes of weights: x -> y" in done.out, done.err


def test_a_part_that_nobody_reads_goes_along_with_the_next(call: Call, tmp_path: Path) -> None:
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]>
  g (float[N] x) => (float[N] y) { unread = Neg(x)  h = Relu(x)  y = Abs(h)  last = Neg(y) }
""",
    )
    done = call("split", net, "--every", "1", "-o", tmp_path / "part{}.onnx")
    assert done.code == 0 and "the parts run, and return the same values as the whole model" in done.out, done.err
    counts = [[node.op_type for node in onnx.load(tmp_path / f"part{n}.onnx").graph.node] for n in (1, 2)]
    assert counts == [["Neg", "Relu"], ["Abs", "Neg"]]


def test_what_joins_the_parts_again_is_said(call: Call, tmp_path: Path) -> None:
    """An input that two parts read, outputs that are made in another order, and one that a later part reads."""
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]> g (float[4] z, float[4] x) => (float[4] last, float[4] a, float[4] first) {
        a = Relu(x)  first = Add(a, x)  b = Mul(a, x)  last = Add(b, z) }""",
    )
    done = call("split", net, "--at", "first", "-o", tmp_path / "part{}.onnx")
    told = "--share x --inputs z,x --outputs last,a,first"
    assert f"`rewriter merge` joins them again with {told}\n" in done.out, done.err
    parts = [tmp_path / f"part{number}.onnx" for number in (1, 2)]
    assert call("merge", *parts, *told.split(), "-o", tmp_path / "whole.onnx").code == 0
    assert call("diff", net, tmp_path / "whole.onnx").code == 0


def test_parts_that_have_nothing_to_do_with_each_other_are_joined_beside(call: Call, tmp_path: Path) -> None:
    """Without being told, merge would give the only output of the first to the only input of the second."""
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[4] x, float[4] z, float[4] spare) => (float[4] a, float[4] b) { a = Relu(x)  b = Neg(z) }""",
    )
    done = call("split", net, "--every", "1", "-o", tmp_path / "part{}.onnx")
    assert "note: in no part, because no node reads it: spare\n" in done.out, done.err
    assert "`rewriter merge` joins them again with --beside\n" in done.out, done.err
    parts = [tmp_path / f"part{number}.onnx" for number in (1, 2)]
    assert call("merge", *parts, "--beside", "-o", tmp_path / "whole.onnx").code == 0
    assert call("diff", net, tmp_path / "whole.onnx").out.count("spare") == 1


def test_all_types_that_are_not_known_are_asked_for_at_once(call: Call, tmp_path: Path) -> None:
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17, "com.acme": 1]> g (float[4] x, int64[?] s) => (float[4] y) {
        a = com.acme.A(x)  i = ConstantOfShape<value = int64[1] {7}>(s)  b = com.acme.B(x, a)  y = com.acme.C(a, b, i) }""",
    )
    done = call("split", net, "--at", "i,b", "-o", tmp_path / "part{}.onnx", "--runtime", "no")
    first = "the element type of the new output 'a' (and of 2 more) is unknown"
    assert (done.code, first in done.err) == (2, True)
    types = [word for told in ("a:float[1,3]", "i:int64[1,3]", "b:float[1,3]") for word in ("--type", told)]
    assert shlex.join(types) in done.err
    assert call("split", net, "--at", "i,b", *types, "-o", tmp_path / "part{}.onnx", "--runtime", "no").code == 0
