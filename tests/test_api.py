"""The public API on graphs that have nothing to do with files."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_graphsurgeon as gs
import pytest

import rewriter
from rewriter.core.errors import for_python

MODELS = Path(__file__).parent / "models"


def graph() -> gs.Graph:
    """x -> Identity -> Relu -> y, by graphsurgeon alone."""
    x, t, y = gs.Variable("x", "float32", [2]), gs.Variable("t", "float32", [2]), gs.Variable("y", "float32", [2])
    nodes = [gs.Node("Identity", "i", inputs=[x], outputs=[t]), gs.Node("Relu", "r", inputs=[t], outputs=[y])]
    return gs.Graph(nodes, [x], [y], opset=13)


def rules(tmp_path: Path, kind: str) -> object:
    (tmp_path / "my.rules").write_text(
        f"/// Nothing.\nrule TST001 identity <kind: {kind}{', evidence: refused' * (kind == 'repair')}>\nmatch {{ y = Identity(x) }}\nrewrite {{ y = x }}\n"
    )
    return rewriter.load_rules([tmp_path])


def test_any_graph_can_be_rewritten(tmp_path: Path) -> None:
    made = graph()
    log = rewriter.rewrite(made, rules(tmp_path, "exact, default: on"))  # type: ignore[arg-type]
    assert log.counts == {"TST001": 1} and repr(log) == "<Log TST001 1>"
    assert [node.op for node in made.nodes] == ["Relu"]
    assert made.nodes[0].inputs[0].name == "x"


def test_a_check_leaves_the_graph_alone(tmp_path: Path) -> None:
    made = graph()
    assert rewriter.check(made, rules(tmp_path, "repair")).counts == {"TST001": 1}  # type: ignore[arg-type]
    assert [node.op for node in made.nodes] == ["Identity", "Relu"]
    assert made.nodes[1].inputs[0].inputs == [made.nodes[0]]


def test_what_does_not_run_unasked_must_be_selected(tmp_path: Path) -> None:
    known = rules(tmp_path, "lossy")
    assert not rewriter.rewrite(graph(), known).changed  # type: ignore[arg-type]
    assert rewriter.rewrite(graph(), known.select(["TST001"])).changed  # type: ignore[attr-defined]


def test_a_model_from_file_to_file(tmp_path: Path) -> None:
    path = MODELS / "mxnet-1.4.1-fix-gamma.onnx"
    model = rewriter.load(path)
    log = rewriter.rewrite(model.graph, source=path.with_name(f"{path.stem}-symbol.json"), overridable=model.overridable)
    assert "MX002" in log.counts
    model.save(tmp_path / "fixed.onnx")
    again = rewriter.load(tmp_path / "fixed.onnx")
    assert not rewriter.rewrite(again.graph).changed


def test_bad_files_raise(tmp_path: Path) -> None:
    with pytest.raises(rewriter.RewriterError):
        rewriter.load(tmp_path / "none.onnx")
    with pytest.raises(rewriter.RewriterError):
        rewriter.rewrite(graph(), source=tmp_path / "none.json")


@pytest.mark.parametrize("given", ["net.onnx", onnx.ModelProto()])
def test_what_is_no_graph_is_refused(given: object) -> None:
    with pytest.raises(rewriter.RewriterError, match=f"not on a {type(given).__name__}"):
        rewriter.rewrite(given)
    with pytest.raises(rewriter.RewriterError, match=r"no such file|the model is empty"):
        rewriter.check(given)


def test_graphsurgeon_prints_nothing_about_its_own_graphs(capfd: pytest.CaptureFixture[str]) -> None:
    """It complains on the standard output of each attribute that a graph is asked for and has not."""
    model = onnx.load(MODELS / "mxnet-1.4.1-fix-gamma.onnx")
    rewriter.rewrite(gs.import_onnx(model))
    assert capfd.readouterr() == ("", "")


def test_names_are_there_and_nothing_is_imported_for_them() -> None:
    assert set(dir(rewriter)) == set(rewriter.__all__)
    program = "import rewriter, sys; assert 'onnx' not in sys.modules; rewriter.load; assert 'onnx' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rewriter.nothing  # noqa: B018


EXPORTS = sorted(MODELS.rglob("*.onnx"))


@pytest.mark.parametrize("path", EXPORTS[5::12], ids=lambda path: path.parent.name if path.stem == "model" else path.stem)
def test_fix_gives_the_bytes_that_the_command_gives(tmp_path: Path, path: Path) -> None:
    from rewriter.app.cli.main import main

    code = main(["fix", str(path), "-o", str(tmp_path / "command.onnx")])
    assert code in (0, 1)  # 1: the installed ONNX Runtime has no kernel for the result, or for what it makes of it
    wanted = (tmp_path / "command.onnx").read_bytes()
    result = rewriter.fix(path, tmp_path / "function.onnx")
    assert (tmp_path / "function.onnx").read_bytes() == wanted
    assert (result.changed, result.output) == (wanted != path.read_bytes(), str(tmp_path / "function.onnx"))
    held = rewriter.fix(str(path))
    assert held.output is None
    held.save(tmp_path / "held.onnx")
    assert (tmp_path / "held.onnx").read_bytes() == wanted
    assert held.log.counts == result.log.counts


def test_fix_uses_the_source_file_and_tells_what_it_did(tmp_path: Path) -> None:
    path = MODELS / "mxnet-1.4.1-fix-gamma.onnx"
    result = rewriter.fix(path)
    assert result.source == str(path.with_name(f"{path.stem}-symbol.json"))
    assert "MX002" in result.log.counts
    assert rewriter.fix(path, source="none").source is None
    assert "MX002" not in rewriter.fix(path, source="none").log.counts
    assert result.firings[0].changes
    assert result.exporter.startswith("mxnet")
    assert result.model.metadata
    assert not rewriter.fix(path, stamp=False).model.metadata


def test_fix_asks_onnx_runtime_before_and_after(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = MODELS / "mxnet-1.3.1-fully-connected.onnx"
    result = rewriter.fix(path, verify=True)
    assert "rank 2" in (result.refused_before or "")
    assert result.refused_after == ""
    assert result.verification is not None
    assert repr(result) == f"<Result {path}: 1 rewrite by MX001; ONNX Runtime rejected it before and loads it now>"
    left = rewriter.fix(path, rules=rewriter.load_rules().select(["NONE"]))
    assert (left.changed, left.refused_after == left.refused_before) == (False, True)
    assert repr(left) == f"<Result {path}: unchanged; still rejected by ONNX Runtime>"
    assert left.model.graph.nodes[0].op == "Gemm"
    assert rewriter.fix(path, runtime="no").refused_before is None


def test_fix_takes_back_what_makes_a_model_worse(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "my.rules").write_text(
        "/// Wrong.\nrule TST001 wrong <kind: exact>\nmatch { y = Relu(x) }\nrewrite { y = com.acme.Nothing(x) }\n"
    )
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    result = rewriter.fix(tmp_path / "net.onnx", rules=rewriter.load_rules([tmp_path]).select(["TST001"]))
    assert ([one.rule for one in result.rolled_back], result.changed, result.unfinished) == (["TST001"], False, True)
    assert repr(result) == f"<Result {tmp_path / 'net.onnx'}: unchanged; 1 rolled back>"


def test_fix_overwrites_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes((MODELS / "mxnet-1.3.1-fully-connected.onnx").read_bytes())
    with pytest.raises(rewriter.RewriterError, match="is the input itself"):
        rewriter.fix(path, path)
    rewriter.fix(path, tmp_path / "out.onnx")
    with pytest.raises(rewriter.RewriterError, match="exists"):
        rewriter.fix(path, tmp_path / "out.onnx")
    rewriter.fix(path, path, force=True)
    assert path.read_bytes() == (tmp_path / "out.onnx").read_bytes()
    with pytest.raises(rewriter.RewriterError, match="pass both"):
        rewriter.fix(path, inputs="some.npz")
    with pytest.raises(rewriter.RewriterError):
        rewriter.fix(tmp_path / "none.onnx")


def test_an_empty_list_means_no_rules() -> None:
    path = MODELS / "mxnet-1.3.1-fully-connected.onnx"
    for function in (rewriter.fix, rewriter.optimize, rewriter.check):
        assert function(path, rules=[], runtime="no").counts == {}
    assert rewriter.fix(path, rules=None, runtime="no").counts == {"MX001": 1}
    assert not rewriter.rewrite(rewriter.load(path).graph, []).changed
    with pytest.raises(rewriter.RewriterError, match="there is no rule 'MX001'"):
        rewriter.why("MX001", path, rules=[])


CHAIN = """<ir_version: 8, opset_import: ["": 17]>
  g (float[1,3] x, int64[3] i) => (float[1,3] y) { [a] b = Relu(x)  [c] m = Cast<to=1>(i)  [d] y = Add(b, m) }"""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda net: rewriter.fix(net, net), "force=True overwrites it"),
        (lambda net: rewriter.fix(net, net.with_name("there.onnx")), "exists; force=True overwrites it"),
        (lambda net: rewriter.check(net).save(net), "exists; force=True overwrites it"),
        (lambda net: rewriter.load(net).save(net), "exists; force=True overwrites it"),
        (lambda net: rewriter.edit(net, ("rename", "x=z"), output=net), "exists; force=True overwrites it"),
        (lambda net: rewriter.optimize(net, static={"z": (1, 2)}), "static z: the model has no such input"),
        (lambda net: rewriter.extract(net, "y", "b"), "not among from_; name them, or use auto_inputs=True"),
        (lambda net: rewriter.merge(net, net, maps=["y=q"]), "maps y=q: no model has an input 'q'"),
        (lambda net: rewriter.edit(net, ("drop", "c")), 'use ("replace", ...) or with_children=True'),
        (lambda net: rewriter.opset(net, 11, ir_version=3), "ir_version 3: at opset 11 this model needs"),
    ],
)
def test_errors_name_parameters(tmp_path: Path, call: Callable[[Path], object], words: str) -> None:
    net = tmp_path / "net.onnx"
    for path in (net, tmp_path / "there.onnx"):
        onnx.save(onnx.parser.parse_model(CHAIN), path)
    with pytest.raises(rewriter.RewriterError) as found:
        call(net)
    assert words in str(found.value) and "--" not in str(found.value)


def test_errors_name_parameters_whatever_is_said_about_an_option() -> None:
    def function(*edits: str, runtime: str = "auto", max_size: int | None = None, beside: bool = False) -> None:
        raise rewriter.RewriterError(
            "--max-size: a; use --beside, or --runtime no; --shape sets it; `rewriter why --runtime no`; a--b; --runtime: c"
        )

    with pytest.raises(rewriter.RewriterError) as found:
        for_python(function)()
    assert str(found.value) == (
        'max_size: a; use beside=True, or runtime="no"; ("shape", ...) sets it; `rewriter why --runtime no`; a--b; runtime: c'
    )


POOL = MODELS / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"


class Program:
    """What PyTorch's exporter returns, as far as it counts here."""

    def __init__(self, model_proto: onnx.ModelProto) -> None:
        self.model_proto = model_proto


@pytest.mark.parametrize("wrap", [lambda proto: proto, Program])
def test_a_model_in_memory_is_repaired_like_its_file(tmp_path: Path, wrap: type[Program]) -> None:
    given = onnx.load(POOL)
    before = given.SerializeToString()
    result = rewriter.fix(wrap(given), tmp_path / "fixed.onnx")
    assert result.refused_before and result.refused_after == "" and given.SerializeToString() == before
    rewriter.fix(POOL, tmp_path / "by_path.onnx")
    assert (tmp_path / "fixed.onnx").read_bytes() == (tmp_path / "by_path.onnx").read_bytes()
    assert result.proto == onnx.load(tmp_path / "fixed.onnx")
    assert "<td>PT030</td><td>/MaxPool</td><td>MaxPool</td>" in result._repr_html_()


def test_an_unchanged_model_in_memory_is_the_result(tmp_path: Path) -> None:
    rewriter.fix(POOL, tmp_path / "fixed.onnx", stamp=False)
    fixed = onnx.load(tmp_path / "fixed.onnx")
    result = rewriter.fix(fixed)
    assert not result.changed and result.proto == fixed and repr(result) == "<Result <model>: unchanged>"


def test_what_is_no_model_in_memory(tmp_path: Path) -> None:
    with pytest.raises(rewriter.RewriterError, match=r"a model is a path, .* not int"):
        rewriter.fix(3)
    model = onnx.load(MODELS / "mxnet-1.4.1-fix-gamma.onnx")
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    with pytest.raises(rewriter.RewriterError, match="refers to data in other files; save it"):
        rewriter.fix(model)


POOL = MODELS / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"


def forms() -> dict[str, object]:
    """The model of a pool in every form that a program may hold."""
    ir = pytest.importorskip("onnx_ir")
    proto = onnx.load(POOL)

    class Program:  # PyTorch's ONNXProgram has this, too
        model_proto = proto

    return {
        "path": POOL,
        "text": str(POOL),
        "message": proto,
        "graph": gs.import_onnx(proto),
        "model": rewriter.load(POOL),
        "graph of a model": rewriter.load(POOL).graph,
        "onnx_ir": ir.from_proto(proto),
        "program": Program(),
        "result": rewriter.check(POOL),
    }


@pytest.mark.parametrize(
    "form", ["path", "text", "message", "graph", "model", "graph of a model", "onnx_ir", "program", "result"]
)
def test_each_function_takes_each_kind_of_model(form: str) -> None:
    model = forms()[form]
    fixed = rewriter.fix(model)
    assert fixed.counts == {"PT030": 1}
    assert rewriter.check(model).counts == {"PT030": 1} and not rewriter.check(model, ignore="PT030").counts
    assert not rewriter.optimize(model, level="basic").counts
    assert "fires" in str(rewriter.why("pt030", model))
    assert not rewriter.diff(model, POOL).found and rewriter.diff(model, fixed.proto).found
    assert rewriter.compare(fixed.model, fixed.proto).found.same
    assert [node.op for node in rewriter.load(model).graph.nodes] == ["MaxPool"]
    assert rewriter.edit(model, ("rename", "a0=image")).graph.inputs[0].name == "image"


@pytest.mark.parametrize(
    "call",
    [rewriter.fix, rewriter.check, rewriter.optimize, rewriter.load, rewriter.edit, lambda model: rewriter.why("PT030", model)],
)
def test_what_is_no_model_is_rejected_with_what_is_accepted(call: Callable[[object], object]) -> None:
    with pytest.raises(rewriter.RewriterError, match=r"a model is a path, an onnx.ModelProto, .* not int$"):
        call(3)


def test_results_and_models_go_to_other_processes(tmp_path: Path) -> None:
    fixed = rewriter.fix(POOL)
    for again in (pickle.loads(pickle.dumps(fixed)), copy.deepcopy(fixed)):
        assert repr(again) == repr(fixed) and again.proto == fixed.proto and again.log.counts == {"PT030": 1}
    model = rewriter.load(POOL)
    model.graph.nodes[0].name = "pool"
    sent = pickle.loads(pickle.dumps(model))
    assert sent.path == model.path and sent.to_proto() == model.to_proto() and sent.edited is False


def test_a_graph_is_loaded_into_onnx_runtime_if_the_caller_asks_for_it() -> None:
    pytest.importorskip("onnxruntime")
    pool = gs.import_onnx(onnx.load(POOL))
    assert rewriter.check(pool).refused_before is None
    assert "incorrect size" in (rewriter.check(pool, runtime="yes").refused_before or "")


def test_a_rule_file_is_named_by_its_path(tmp_path: Path) -> None:
    rules(tmp_path, "exact, default: on")
    assert rewriter.check(graph(), tmp_path / "my.rules").counts == {"TST001": 1}
    assert rewriter.check(graph(), [str(tmp_path / "my.rules"), "shipped"], select="TST").counts == {"TST001": 1}
    with pytest.raises(rewriter.RewriterError, match="level is 'basic' or 'all'"):
        rewriter.optimize(POOL, level="most")  # type: ignore[arg-type]


def test_rules_are_loaded_from_one_path_or_several(tmp_path: Path) -> None:
    rules(tmp_path, "exact")
    file = tmp_path / "my.rules"
    assert {len(rewriter.load_rules(one)) for one in (file, str(file), [file], [str(tmp_path)])} == {1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rewriter.load_rules(3), "rule files are a path or a list of paths, not a int"),  # type: ignore[arg-type]
        (lambda: rewriter.fix(POOL, rules=[3]), "the name of a rule file is a path, not a int"),  # type: ignore[list-item]
        (lambda: rewriter.fix(POOL, select=3), "codes and names are a text or a list of texts, not 3"),  # type: ignore[arg-type]
        (lambda: rewriter.fix(POOL, runtime="off"), "runtime is 'no' or 'auto' or 'yes', not 'off'"),  # type: ignore[arg-type]
        (lambda: rewriter.extract(POOL, runtime="off"), "runtime is 'no' or 'auto' or 'yes', not 'off'"),
        (lambda: rewriter.check(POOL, constant_inputs="maybe"), "constant_inputs is 'no' or"),  # type: ignore[arg-type]
        (lambda: rewriter.check(POOL, expect="none.npz"), "none.npz: no such file"),
        (lambda: rewriter.extract(POOL, 3), "names are a text or a list of texts, not 3"),  # type: ignore[arg-type]
        (lambda: rewriter.edit(POOL, "rename a0=image"), "an edit is a kind and a text, such as"),  # type: ignore[arg-type]
        (lambda: rewriter.split(POOL, every=-1), "every and max_size are positive numbers"),
        (lambda: rewriter.edit(POOL, ("rename", 5)), "an edit is a kind and a text, such as"),  # type: ignore[arg-type]
        (lambda: rewriter.split(POOL, every=0), "every and max_size are positive numbers"),
        (lambda: rewriter.split(POOL, every="a"), "every is a whole number, not 'a'"),  # type: ignore[arg-type]
        (lambda: rewriter.opset(POOL, "13"), "version is a whole number, not '13'"),  # type: ignore[arg-type]
        (lambda: rewriter.fix(POOL, limits=3), "limits is a rewriter.Limits, not 3"),  # type: ignore[arg-type]
        (lambda: rewriter.rewrite(graph(), limits=3), "limits is a rewriter.Limits, not 3"),  # type: ignore[arg-type]
        (lambda: rewriter.fix(POOL, POOL.parent), "is a folder; name a file in it"),
        (lambda: rewriter.fix(POOL, 5), "output is a path, not 5"),  # type: ignore[arg-type]
        (lambda: rewriter.extract(POOL, output=5), "output is a path, not 5"),  # type: ignore[arg-type]
        (lambda: rewriter.check(POOL, source=3), "source is a path, not 3"),  # type: ignore[arg-type]
        (lambda: rewriter.optimize(POOL, static=5), "static is a dictionary of shapes by the names"),  # type: ignore[arg-type]
        (lambda: rewriter.why(5, POOL), "rule is a text, not 5"),  # type: ignore[arg-type]
        (lambda: rewriter.compare(POOL, POOL, rtol=-1), "rtol and atol are 0 or more"),
        (lambda: rewriter.compare(POOL, POOL, atol=float("nan")), "rtol and atol are 0 or more"),
        (lambda: rewriter.compare(POOL, POOL, rtol="a"), "rtol is a number, not 'a'"),  # type: ignore[arg-type]
        (lambda: rewriter.rewrite(graph(), settings={("MX001", "no"): 1}), "no rule that runs has the parameter"),
    ],
)
def test_a_wrong_argument_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(rewriter.RewriterError, match=message):
        call()


def test_an_argument_that_no_function_has_is_an_error_of_the_function() -> None:
    with pytest.raises(TypeError, match=r"^edit\(\) got an unexpected keyword argument 'rename'$"):
        rewriter.edit(POOL, rename="a=b")


def test_a_graph_of_graphsurgeon_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Its graphs print an error on stderr when somebody looks for an attribute that they lack."""
    rewriter.check(graph()), rewriter.fix(graph(), runtime="no")
    with pytest.raises(rewriter.RewriterError, match="a model is a path"):
        rewriter.fix(gs.Function("own", opset=13))
    assert "not registered" not in "".join(capfd.readouterr())


def test_a_rule_file_that_is_named_runs_as_on_the_command_line(tmp_path: Path) -> None:
    rules(tmp_path, "lossy")
    assert rewriter.check(graph(), tmp_path / "my.rules").counts == {"TST001": 1}
    assert not rewriter.check(graph(), tmp_path).counts  # a folder names no rule
    assert not rewriter.check(graph(), tmp_path / "my.rules", select="DEFAULT").counts
    assert rewriter.optimize(graph(), rules=[tmp_path / "my.rules", "shipped"], runtime="no").counts["TST001"] == 1


def test_objects_show_themselves_on_one_line_and_in_a_notebook() -> None:
    known, checked = rewriter.load_rules(), rewriter.check(POOL)
    assert repr(known).startswith(f"<RuleSet of {len(known):,} rules: ") and len(repr(known)) < 80
    assert repr(known.select(["PT030"])) == "<RuleSet of 1 chosen rule: PT030>"
    assert repr(rewriter.load(POOL)) == f"<Model {POOL}: 1 node, opset 17>"
    assert repr(checked).startswith(f"<Result {POOL}: 1 finding by PT030")
    for one in (known, checked, checked.log, rewriter.load(POOL)):
        assert one._repr_html_().count("<tr>") > 1
    assert rewriter.why("PT030", POOL)._repr_html_().startswith("<pre>")
