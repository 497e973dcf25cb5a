"""`rewriter lint`: exit codes and what is printed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from rewriter.app.cli.main import main

TWICE = "rule A1 a <kind: lossy>\nmatch { y = Relu(x) }\nrewrite { y = x }\n\nrule A2 b <kind: lossy>\nmatch { z = Relu(t) }\nrewrite { z = t }\n"


def test_a_clean_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.rules").write_text(TWICE.partition("\n\n")[0])
    assert main(["lint", str(tmp_path)]) == 0
    assert capsys.readouterr() == ("", "1 rule: 0 findings\n")


def test_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.rules").write_text(TWICE)
    assert main(["lint", str(tmp_path)]) == 1
    assert "error[E404]: A1 and A2 match exactly the same places" in capsys.readouterr().out
    assert main(["lint", "--format", "json", str(tmp_path)]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["line"], finding["related"][0]["line"]) == ("E404", 6, 2)


def test_what_cannot_be_decided_is_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.rules").write_text(
        "rule A1 a <kind: lossy>\nmatch { [n] y = AveragePool<pads=p>(x) }\nwhere all(p == 1)\nrewrite { n.pads = reversed(p) }\n"
    )
    assert main(["lint", str(tmp_path)]) == 0
    assert main(["lint", "--pedantic", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "warning[W407]" in shown.out
    assert "1 rule: 0 findings, 1 undecided" in shown.err


def test_what_reads_badly_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.rules").write_text(
        "rule A1 a <kind: lossy>\nmatch { y = com.acme.Halves(x) }\nrewrite opset ..12 { y = Unsqueeze<axes=[0]>(x) }\n"
        "rewrite opset 13.. { y = Unsqueeze(x, {[0]}) }\n"
    )
    assert main(["lint", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "warning[W304]: A1 has two rewrites" in shown.out
    assert shown.err.endswith("1 rule: 0 findings, 1 warning\n")


def test_rules_of_ones_own_against_the_shipped_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All findings are about the own rule: the shipped rules are clean. All of them are compared in seconds."""
    began = time.process_time()
    (tmp_path / "x.rules").write_text(
        "rule A1 a <kind: exact, phase: cleanup, opset: 1..>\nmatch { y = Identity(x) }\nrewrite { y = x }\n"
    )
    assert main(["lint", "shipped", str(tmp_path), "--format", "json"]) == 1
    assert time.process_time() - began < 60  # 13 s beside other jobs on two cores
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding for finding in findings if "A1" not in finding["message"].split()] == []
    assert any("GEN001" in finding["message"].split() for finding in findings)
