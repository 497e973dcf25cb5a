"""`rewriter coverage`: what models never exercise."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.call import Call

RULES = """\
/// Fires, and one line of it never matters.
rule TST001 fires <kind: exact, severity: warning>
match { y = Abs(x) }
where rank(x) > 1
where dtype(x) == float
rewrite { y = Relu(x) }

/// Its operator is nowhere.
rule TST002 nowhere <kind: repair, evidence: refused>
match { [n] y = LeakyRelu(x) }
where rank(x) > 1
rewrite { n.alpha = 0.5 }

/// Stands, but is always kept from firing; runs when asked only.
rule TST003 blocked <kind: lossy>
match { y = Neg(x) }
where rank(x) > 7
where dtype(x) == float
rewrite { y = x }

/// Nobody says which operator.
rule TST004 parameter <kind: lossy>
param op: op
match { y = @op(x) }
rewrite { y = x }
"""
MODEL = '<ir_version: 8, opset_import: ["": 13]> g (float[2,3] a, float[3] b) => (float[2,3] c, float[3] d) { e = Abs(a) c = Neg(e) d = Abs(b) }'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my.rules").write_text(RULES)
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "model.onnx")
    return tmp_path


def test_what_was_never_exercised(call: Call, folder: Path) -> None:
    before = (folder / "model.onnx").read_bytes()
    done = call("coverage", folder / "my.rules", folder)
    assert done.code == 0
    assert done.out.splitlines() == [
        "TST001 line 5 `dtype(x) == float` was always true (evaluated 1 time)",
        "TST002 never fired: its pattern matched nowhere",
        "TST003 never fired: its pattern matched 1 time",
        "TST003 line 17 `rank(x) > 7` was never true (evaluated 1 time)",
        "TST003 line 18 `dtype(x) == float` was never evaluated",
        "TST004 never fired: its pattern matched nowhere",
    ]
    assert done.err == "4 rules over 1 model: 3 rules never fired, 3 `where` lines never stopped a rule\n"
    assert (folder / "model.onnx").read_bytes() == before


def test_all_counts(call: Call, folder: Path) -> None:
    out = call("coverage", folder / "my.rules", folder, "--all", "--set", "TST004.op=Neg").out
    assert "TST001 fired 1 time: its pattern matched 2 times" in out
    assert "TST001 line 4 `rank(x) > 1` was true 1 time, and false or unknown 1 time" in out
    assert "TST004 fired 1 time" in out


def test_json(call: Call, folder: Path) -> None:
    report = json.loads(call("coverage", folder / "my.rules", folder, "--format", "json").out)
    assert (report["models"], report["failed"]) == (1, 0)
    first = report["rules"][0]
    assert (first["code"], first["stood"], first["fired"]) == ("TST001", 2, 1)
    assert first["wheres"][0] == {"line": 4, "condition": "rank(x) > 1", "true": 1, "false": 1, "unknown": 0}


def test_a_model_that_cannot_be_read(call: Call, folder: Path) -> None:
    (folder / "bad.onnx").write_bytes(b"nothing")
    done = call("coverage", folder / "my.rules", folder)
    assert done.code == 2
    assert "bad.onnx" in done.err
    assert "TST002 never fired" in done.out
