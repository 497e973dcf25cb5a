"""Records of calls that reports are made of: an ordinary one, and one whose every name wants to be more than a name."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from rewriter.app.report.document import (
    AnswerRecord,
    FileRecord,
    ModelRecord,
    Report,
    RuleRecord,
    RuleSetRecord,
    SkippedRecord,
    Summary,
)
from rewriter.core.log import (
    Blocked,
    Box,
    Change,
    Condition,
    Firing,
    Judged,
    Log,
    Port,
    RolledBack,
    Skipped,
    Snapshot,
    Stop,
    Suppressed,
    Verification,
    View,
    Weight,
)

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></svg></pre></details>",
    "&lt;b&gt; &amp; ]]> --> <!--",
    '=HYPERLINK("http://evil","x")',
    "+1-1|cmd",
    "@SUM(A1)",
    "-2+3",
    " =1+1",
    "::error file=x::pwned",
    "a\n::set-output name=x::y",
    "a\r\n##[add-path]/evil",
    "%0A::stop-commands::x",
    "`` ` ```",
    "|a|b|",
    "[link](javascript:alert(1)) ![x](http://evil/x.png) @everyone #1",
    "\u202egnp.exe",
    "a\u2028b\u2029c\x85d",
    "\udcff\ud800",
    "\x00\ufffe",
    "{0} %s ${x} {{x}}",
    "n" * 300,
    "",
)


def firing(number: int, root: str, place: str = "main") -> Firing:
    return Firing(
        number,
        "TST001",
        "A title",
        "exact",
        "canonical",
        place,
        root,
        "Relu",
        (root,),
        (
            Change(root, f"{root} = Relu(x)", f"{root} = Elu(x)"),
            Change("new", None, "new = Abs(x)"),
            Change("old", "old = Abs(x)", None),
        ),
        (Condition("rank(x) > 2", "true", "rank(x) is 4"),),
        (number - 1,) if number > 1 else (),
        1234.0,
        weights=(Weight("w", "float[3,5]", "ab" * 32, "", "both"),),
        verdict="kept",
        snapshot=snapshot(root),
    )


def snapshot(name: str = "n") -> Snapshot:
    given, made, other = Port(1, "x", "float[2]"), Port(2, name, "float[2]", more=2), Port(3, "t", "float[2]")
    weight = Port(4, "w", "float[3,5]", "float[3,5] #abababababab")
    after = Box(2, "Exp", "e", "around", (), (made,), (Port(5, "y"),))
    before = (Box(1, "Relu", name, "removed", (("axis", "1"),), (given, weight), (made,)), after)
    now = (Box(3, "Abs", "a", "added", (), (given,), (other,)), Box(4, "Neg", "m", "edited", (), (other,), (made,)), after)
    return Snapshot(View(before, (given,), (Port(5, "y"),)), View(now, (given,), (Port(5, "y"),)))


def log() -> Log:
    return Log(
        [*(firing(i + 1, f"n{i}") for i in range(10)), firing(11, "inner", "If_3.then_branch")],
        [
            Blocked("TST002", "Another", "main", "b0", "Gemm", "rank of x is unknown", 7, "give the shape of x"),
            Blocked("TST002", "Another", "main", "b1", "Gemm", "rank of x is unknown", 7, "give the shape of x"),
            Blocked("TST003", "Third", "main", "b2", "", "division by zero", error=True),
        ],
        [Skipped("TST004", "the model's opset is 8")],
        [Stop("Cycle", "these rules undo each other: A -> B -> A", ("A", "B"), ("n1",))],
        ["a note"],
        [RolledBack("TST001", "A title", "exact", "main", "n3", "Relu", "onnx.checker: no", 1, (Change("n3", "a", "b"),))],
        [Judged("onnx.checker", ""), Judged("ONNX Runtime", None)],
        Verification("agree", "ONNX Runtime 1.20", 2, 1, 0.0, ("verified: outputs agree",), (1,)),
        [Suppressed("TST001", "A title", "main", "n9", "Relu", "wanted so", "rewriter.toml:3")],
    )


def model(path: str = "models/net.onnx") -> ModelRecord:
    found = log()
    return ModelRecord(
        path,
        "out/net.onnx",
        "changed",
        exporter="mxnet 1.3.1",
        source="net-symbol.json",
        constant_inputs=True,
        refusal="no kernel",
        answers=(AnswerRecord("TST001", "no kernel", 1.0),),
        seconds=0.5,
        files=(FileRecord("input", path, "cd" * 32, 100), FileRecord("output", "out/net.onnx", None, None)),
        stop="Cycle",
        counts=dict(found.counts),
        **{f.name: getattr(found, f.name) for f in fields(Log) if f.name not in ("skipped", "tries")},
        skipped=len(found.skipped),
    )


def report(*models: ModelRecord, command: Any = "fix") -> Report:
    found = models or (
        model(),
        ModelRecord("clean.onnx", status="clean", stop="fixpoint"),
        ModelRecord("bad.onnx", status="failed", error="bad.onnx: no ONNX model"),
    )
    rules = tuple(
        RuleRecord(
            code, "a-rule", "A title", "exact", "warning", "canonical", "x.rules", "ef" * 32, issues=("https://example.com/1",)
        )
        for code in ("TST001", "TST002", "TST003")
    )
    summary = Summary(len(found), {"changed": 1, "clean": 1, "failed": 1}, 1, 1, {"TST001": 11}, 1.5)
    skipped = (SkippedRecord("the model's opset is 8", 1, ("TST004",)),)
    return Report(2, command, "0.1.0", 2, summary, RuleSetRecord("01" * 32, 4), rules, found, skipped)


def hostile(name: str, command: Any = "fix") -> Report:
    """The report with one text at every place that a model, a path or a message of a tool can fill."""
    return replace(report(command=command), models=tuple(_filled(one, name) for one in report().models))


_OWN = {"rule", "kind", "phase", "verdict", "status", "stop", "sha256", "role", "used", "value", "counts", "type"}


def _filled(value: Any, name: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        known = {f.name: getattr(value, f.name) for f in fields(value)}
        return replace(value, **{key: item if key in _OWN else _filled(item, name) for key, item in known.items()})
    if isinstance(value, tuple | list):
        return type(value)(_filled(item, name) for item in value)
    return name if isinstance(value, str) and value else value
