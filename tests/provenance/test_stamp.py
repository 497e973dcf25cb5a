"""The record in real exports: it is there when something fired, it is true, and it stays through later runs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import onnx
import pytest

import rewriter
from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import load
from rewriter.core.onnxfile import model_file
from rewriter.trust.stamp import history
from tests.cli.call import GEMM, MODELS, POOL, Call

EXPORTS = sorted(MODELS.rglob("*.onnx"))
JAX = MODELS / "jax-pool-static" / "model.onnx"
MARKS = "rewriter.rules"


def record(path: Path) -> str:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}["rewriter.history"]


def marked(model: onnx.ModelProto) -> dict[str, str]:
    return {n.output[0]: e.value for n in model.graph.node for e in n.metadata_props if e.key == MARKS}


@pytest.mark.parametrize("model", EXPORTS[::6], ids=lambda path: path.parent.name if path.stem == "model" else path.stem)
def test_every_sixth_export(call: Call, tmp_path: Path, model: Path) -> None:
    fixed, again, bare = (tmp_path / f"{name}.onnx" for name in ("fixed", "again", "bare"))
    first = call(
        "fix", model, "-o", fixed, "--format", "json"
    )  # some results are refused by the optimizer of an old ONNX Runtime
    told = json.loads(first.out)["models"][0]
    if not told["counts"]:
        assert fixed.read_bytes() == model.read_bytes()
        return
    (run,) = history(load(fixed).metadata)
    assert {code: count for code, (count, _) in run.rules.items()} == told["counts"]
    audited = call("audit", model, fixed)
    assert (audited.code, audited.out.split(": ")[1]) == (0, "as recorded")
    assert call("fix", fixed, "-o", again, "--source", "none").code == first.code
    assert again.read_bytes() == fixed.read_bytes()
    assert call("fix", model, "-o", bare, "--no-stamp").code == first.code
    plain, stamped = onnx.load(bare), onnx.load(fixed)
    assert plain != stamped
    del stamped.metadata_props[-1]
    for node in stamped.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key != MARKS]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    assert plain == stamped


def test_nodes_name_their_rules_where_the_format_has_a_place_for_it(call: Call, tmp_path: Path) -> None:
    model = onnx.load(JAX)
    assert model.ir_version >= 10
    call("fix", JAX, "-o", tmp_path / "new.onnx")
    new = marked(onnx.load(tmp_path / "new.onnx"))
    assert new
    assert set(new.values()) == {"GEN012"}
    model.ir_version = 9
    onnx.save(model, tmp_path / "nine.onnx")
    call("fix", tmp_path / "nine.onnx", "-o", tmp_path / "old.onnx")
    assert not marked(onnx.load(tmp_path / "old.onnx"))
    assert "GEN012" in record(tmp_path / "old.onnx")
    lines = call("history", tmp_path / "new.onnx").out.splitlines()
    assert f"{len(new)} nodes made or changed by rules:" in lines


TWO = """/// {title}
rule ACME00{n} number-{n} <kind: repair, evidence: refused>
match {{ y = {old}(x) }}
rewrite {{ y = {new}(x) }}
"""


def two_rules(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model, and two files of a rule each, of which the second takes up what the first one makes."""
    text = '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { t = Sin(x)  y = Neg(t) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    (tmp_path / "one.rules").write_text(TWO.format(title="One.", n=1, old="Sin", new="Cos"))
    (tmp_path / "two.rules").write_text(TWO.format(title="Two.", n=2, old="Cos", new="Tan"))
    return tmp_path / "net.onnx", tmp_path / "one.rules", tmp_path / "two.rules"


def test_later_runs_are_added(call: Call, tmp_path: Path) -> None:
    net, one, two = two_rules(tmp_path)
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    assert call("fix", net, "-o", first, "--rules", one).code == 0
    assert call("fix", first, "-o", second, "--rules", two).code == 0
    assert [list(run.rules) for run in history(load(second).metadata)] == [["ACME001"], ["ACME002"]]
    assert marked(onnx.load(second)) == {"t": "ACME001 ACME002"}
    both = ("--rules", one, "--rules", two)
    assert call("audit", net, second, *both).out == f"{second}: as recorded: ACME001 1, ACME002 1\n"
    assert call("audit", first, second, *both).out == f"{second}: as recorded: ACME002 1\n"
    assert "rule ACME002 is not among the rules" in call("audit", net, second, "--rules", one).out
    one.write_text(one.read_text().replace("Cos", "Tan"))
    changed = call("audit", net, second, *both)
    assert (changed.code, "rule ACME001 has changed: recorded " in changed.out) == (1, True)


def test_an_audit_names_what_differs(call: Call, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.onnx"
    call("fix", GEMM, "-o", fixed)
    model = onnx.load(fixed)
    model.graph.node[0].op_type, kept = "Neg", model.graph.node[0].op_type
    onnx.save(model, tmp_path / "other.onnx")
    done = call("audit", GEMM, tmp_path / "other.onnx")
    assert done.code == 1
    assert "not as recorded\n  the output is not what the recorded rules make of the input" in done.out
    assert "Neg" in done.out
    model.graph.node[0].op_type = kept
    model.graph.doc_string = "something else"
    onnx.save(model, tmp_path / "other.onnx")
    assert "but has other names, doc strings, types or order" in call("audit", GEMM, tmp_path / "other.onnx").out
    told = json.loads(call("audit", GEMM, tmp_path / "other.onnx", "--format", "json").out)
    assert (told["as_recorded"], told["differences"], len(told["findings"])) == (False, [], 1)


def test_an_audit_of_something_else(call: Call, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.onnx"
    call("fix", GEMM, "-o", fixed)
    assert "no recorded run began with" in call("audit", POOL, fixed).out
    assert "there is no record in" in call("audit", GEMM, POOL).out
    assert call("audit", POOL, POOL).code == 0
    shutil.copy(GEMM, tmp_path / "alone.onnx")
    assert "is missing (--source)" in call("audit", tmp_path / "alone.onnx", fixed).out
    source = GEMM.with_name(f"{GEMM.stem}-symbol.json")
    assert call("audit", tmp_path / "alone.onnx", fixed, "--source", source).code == 0
    (tmp_path / "alone-symbol.json").write_text(source.read_text() + " ")
    assert "is not the recorded source file" in call("audit", tmp_path / "alone.onnx", fixed).out


def test_what_was_left_out_is_left_out_again(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { t = Sin(x)  u = Neg(t)  y = Sin(u) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    (tmp_path / "rules").mkdir()
    _, one, _ = two_rules(tmp_path / "rules")
    (tmp_path / ".git").mkdir()
    (tmp_path / "rewriter.toml").write_text('[[suppress]]\nrule = "ACME001"\nnode = "y"\nreason = "not here"\n')
    monkeypatch.chdir(tmp_path)
    assert call("fix", "net.onnx", "--rules", one).code == 0
    (run,) = history(load("net.fixed.onnx").metadata)
    assert run.left_out == (("ACME001", "main", "y"),)
    assert call("audit", "net.onnx", "net.fixed.onnx", "--rules", one, "--no-config").code == 0
    assert "left out  ACME001 at y" in call("history", "net.fixed.onnx").out


def test_stopped_and_tidied_runs(call: Call, tmp_path: Path) -> None:
    model = MODELS / "mxnet-1.4.1-fix-gamma.onnx"
    assert call("fix", model, "-o", tmp_path / "one.onnx", "--max-firings", 1, "--tidy").code == 1
    (run,) = history(load(tmp_path / "one.onnx").metadata)
    assert (run.firings, run.tidy) == (1, True)
    assert call("audit", model, tmp_path / "one.onnx").code == 0


def test_an_entry_that_is_no_record_stays(call: Call, tmp_path: Path) -> None:
    model = onnx.load(GEMM)
    model.metadata_props.add(key="rewriter.history", value="mine")
    onnx.save(model, tmp_path / "net.onnx")
    done = call("fix", tmp_path / "net.onnx")
    assert done.code == 0
    assert "no record was written: the metadata entry rewriter.history cannot be read (it is not JSON)" in done.out
    assert record(tmp_path / "net.fixed.onnx") == "mine"
    wrong = call("history", tmp_path / "net.fixed.onnx")
    assert (wrong.code, "the record in it cannot be read: it is not JSON" in wrong.err) == (2, True)


def test_from_python_only_when_asked(tmp_path: Path) -> None:
    rules = rewriter.load_rules().select(["MX061"])
    model = rewriter.load(POOL)
    log = rewriter.rewrite(model.graph, rules)
    model.save(tmp_path / "bare.onnx")
    assert history(load(tmp_path / "bare.onnx").metadata) == ()
    rewriter.stamp(model, log, rules)
    model.save(tmp_path / "stamped.onnx")
    (run,) = history(load(tmp_path / "stamped.onnx").metadata)
    assert (run.asked, list(run.rules)) == (("MX061",), ["MX061"])
    wrong: list[tuple[object, ...]] = [(str(POOL), log, rules), (model, 3, rules), (model, log, 3)]
    for arguments in wrong:
        with pytest.raises(RewriterError, match=r"stamp takes a rewriter\.Model, the log of a run"):
            rewriter.stamp(*arguments)  # type: ignore[arg-type]


def test_a_record_is_no_difference(call: Call, tmp_path: Path) -> None:
    call("fix", POOL, "-o", tmp_path / "a.onnx")
    call("fix", POOL, "-o", tmp_path / "b.onnx", "--no-stamp")
    assert (tmp_path / "a.onnx").read_bytes() != (tmp_path / "b.onnx").read_bytes()
    assert call("diff", tmp_path / "a.onnx", tmp_path / "b.onnx").code == 0


def test_models_whose_weights_stay_in_their_file(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call("fix", GEMM, "-o", tmp_path / "small.onnx")
    monkeypatch.setattr(model_file, "LEAST_FIELD", 1)
    call("fix", GEMM, "-o", tmp_path / "large.onnx")
    assert (tmp_path / "large.onnx").read_bytes() == (tmp_path / "small.onnx").read_bytes()
    digest = hashlib.sha256(GEMM.read_bytes()).hexdigest()
    assert rewriter.load(GEMM).read_digest() == rewriter.load(GEMM).written_digest() == digest
    assert call("audit", GEMM, tmp_path / "large.onnx").code == 0
    model, rules = rewriter.load(GEMM), rewriter.load_rules()
    log = rewriter.rewrite(model.graph, rules)
    rewriter.stamp(model, log, rules)
    model.save(tmp_path / "first.onnx")
    model.save(tmp_path / "second.onnx")
    (run,) = history({entry.key: entry.value for entry in model.to_proto().metadata_props})
    model.save(tmp_path / "third.onnx")
    assert run.input == digest
    written = {(tmp_path / f"{name}.onnx").read_bytes() for name in ("first", "second", "third")}
    assert {hashlib.sha256(data).hexdigest() for data in written} == {model.written_digest()}


def test_the_digest_of_the_rules_that_fired_is_not_called_that_of_the_rule_set(call: Call, tmp_path: Path) -> None:
    """Reports have a digest of all selected rules under this name, which is another one."""
    call("fix", GEMM, "-o", tmp_path / "fixed.onnx", "--runtime", "no", "--report", tmp_path / "r.json")
    (line,) = (line for line in call("history", tmp_path / "fixed.onnx").out.splitlines() if ", digest " in line)
    assert line.startswith("  fired     1 rule, digest ") and "rule set" not in line
