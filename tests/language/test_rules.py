"""Rule sets: loading, selecting, setting parameters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import RuleSet, parse_setting
from rewriter.rule_tools.load_rules import load_rules

RULES = """
/// Averages over the padding.
///
/// More text.
rule MX003 average-pool <kind: repair, evidence: refused, exporter: "mxnet", versions: ">=1.3,<1.9", needs: source, issue: ["a", "b"]>
match { [pool] y = AveragePool(x) }
where source(pool, "count_include_pad", true)
rewrite { pool.count_include_pad = 1 }

rule MX001 tidy <kind: exact, opset: ..12, ir: ..9, phase: cleanup>
match { y = Identity(x) }
rewrite { y = x }

rule OPT10 near <kind: approx(rtol=1e-4), severity: error, before: OPT2>
match { y = Neg(x) }
rewrite { y = x }

rule OPT2 exact <kind: exact, severity: warning>
match { y = Abs(x) }
rewrite { y = x }

rule OPT3 for-a-target <kind: exact, severity: error, target: "tensorrt">
match { y = Sqrt(x) }
rewrite { y = x }

rule SURG1 named-batch <kind: interface>
param batch: dim = "N"
param kind: dtype = float
param axes: ints = [0]
param rate: float = 0.5
param on: bool = true
param op: op = "com.acme::Foo"
match { y = @op(x) }
where rate > 0.1 and on and dim(x, axes[0]) == batch and dtype(x) == kind
rewrite { y = x }
"""


@pytest.fixture
def rules(tmp_path: Path) -> RuleSet:
    (tmp_path / "all.rules").write_text(RULES)
    return load_rules([tmp_path])


def names(rules: RuleSet) -> list[str]:
    return [rule.code for rule in rules]


def test_header(rules: RuleSet) -> None:
    rule = rules.get("MX003")
    assert rule is not None
    assert rule.title == "Averages over the padding."
    assert "More text." in rule.doc
    assert (rule.kind.name, rule.phase, rule.severity, rule.default) == ("repair", "repair", "error", True)
    assert rule.exporters == ("mxnet",)
    assert rule.versions == ">=1.3,<1.9"
    assert rule.needs_source
    assert rule.issues == ("a", "b")
    assert (rule.opset.first, rule.opset.last) == (7, None)


def test_header_defaults(rules: RuleSet) -> None:
    tidy, near, surgery = (rules.get(code) for code in ("MX001", "OPT10", "SURG1"))
    assert tidy is not None
    assert near is not None
    assert surgery is not None
    assert (tidy.title, tidy.phase, tidy.severity, tidy.default) == ("tidy", "cleanup", "info", False)
    assert (tidy.opset.first, tidy.opset.last, tidy.ir.last) == (7, 12, 9)
    assert (near.phase, near.default, near.before, near.kind.rtol) == ("optimize", False, ("OPT2",), 1e-4)
    assert (surgery.phase, surgery.severity) == ("interface", "info")


def test_order_is_by_code(rules: RuleSet) -> None:
    assert names(rules) == ["MX001", "MX003", "OPT2", "OPT3", "OPT10", "SURG1"]
    assert len(rules) == 6


@pytest.mark.parametrize(
    ("select", "ignore", "expected", "by_id"),
    [
        ([], [], ["MX003", "OPT2"], []),
        (["ALL"], [], ["MX001", "MX003", "OPT2", "OPT10", "SURG1"], []),
        (["MX"], [], ["MX001", "MX003"], []),
        (["MX"], ["MX003"], ["MX001"], []),
        (["MX003"], ["MX"], ["MX003"], ["MX003"]),
        (["MX003"], ["MX003"], [], []),
        (["DEFAULT", "OPT10"], ["MX"], ["OPT2", "OPT10"], ["OPT10"]),
        ([], ["ALL"], [], []),
        (["ALL", "OPT3"], ["DEFAULT"], ["MX001", "OPT3", "OPT10", "SURG1"], ["OPT3"]),
        (["ALL"], ["ALL"], [], []),
    ],
)
def test_select(rules: RuleSet, select: list[str], ignore: list[str], expected: list[str], by_id: list[str]) -> None:
    chosen = rules.select(select, ignore)
    assert names(chosen) == expected
    assert sorted(chosen.by_id) == by_id


TARGETS = """
rule TGT1 near <kind: exact, target: ["tensorrt", "ncnn"]> match { y = Neg(x) } rewrite { y = x }
rule TGT2 off <kind: approx(rtol=1e-3), target: "tensorrt", default: off> match { y = Abs(x) } rewrite { y = x }
rule TGT3 numbers <kind: lossy, target: "tensorrt"> match { y = Sin(x) } rewrite { y = x }
rule TGT4 elsewhere <kind: repair, evidence: refused, target: "coreml"> match { y = Cos(x) } rewrite { y = x }
rule USUAL1 usual <kind: repair, evidence: refused> match { y = Tan(x) } rewrite { y = x }
"""


@pytest.mark.parametrize(
    ("select", "ignore", "targets", "expected", "aside"),
    [
        ([], [], [], ["USUAL1"], []),
        ([], [], ["tensorrt"], ["TGT1", "USUAL1"], []),
        ([], [], ["ncnn", "coreml"], ["TGT1", "TGT4", "USUAL1"], []),
        (["NONE"], [], ["tensorrt"], ["TGT1"], []),
        ([], ["TGT1"], ["tensorrt"], ["USUAL1"], []),
        (["TGT3"], [], [], ["TGT3"], []),
        (["TGT3"], [], ["tensorrt"], ["TGT1", "TGT3"], []),
        (["TGT"], [], ["tensorrt"], ["TGT1", "TGT2", "TGT3"], ["TGT4"]),
        (["TGT"], ["TGT4"], [], [], ["TGT1", "TGT2", "TGT3"]),
        (["ALL"], [], [], ["USUAL1"], ["TGT1", "TGT2", "TGT3", "TGT4"]),
    ],
)
def test_targets(
    tmp_path: Path, select: list[str], ignore: list[str], targets: list[str], expected: list[str], aside: list[str]
) -> None:
    (tmp_path / "targets.rules").write_text(TARGETS)
    chosen = load_rules([tmp_path]).select(select, ignore, targets)
    assert names(chosen) == expected
    assert [rule.code for rule in chosen.aside] == aside


def test_a_target_that_no_rule_has(tmp_path: Path) -> None:
    (tmp_path / "targets.rules").write_text(TARGETS)
    loaded = load_rules([tmp_path])
    with pytest.raises(RewriterError, match=r"there is no target 'tensort'; did you mean tensorrt\?"):
        loaded.select(targets=["tensort"])
    with pytest.raises(RewriterError, match=r"there is no target 'acme'; the targets are coreml, .*ncnn, .*tensorrt"):
        loaded.select(targets=["acme"])


@pytest.mark.parametrize("name", ["MX009", "mx001", "", "FOO"])
def test_select_what_is_not_there(rules: RuleSet, name: str) -> None:
    with pytest.raises(RewriterError, match="no rule code starts with"):
        rules.select([name])


def test_settings(rules: RuleSet) -> None:
    texts = ["batch=B", "batch=4", "kind=float16", "axes=[1, 2]", "axes=3", "rate=1e-2", "on=no", "op=Relu", 'batch="7"']
    values = [parse_setting(f"SURG1.{text}", rules._by_code)[1] for text in texts]
    assert values == ["B", 4, 10, [1, 2], [3], 0.01, False, "Relu", "7"]
    assert rules.with_settings(["SURG1.rate=1", "SURG1.rate=2"]).settings == {("SURG1", "rate"): 2.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SURG1.batch", "not a setting"),
        ("SURG2.batch=1", "there is no rule SURG2; did you mean SURG1?"),
        ("SURG1.btach=1", "has no parameter 'btach'; it has batch, kind"),
        ("MX001.x=1", "it has none"),
        ("SURG1.kind=flaot", "did you mean float?"),
        ("SURG1.rate=fast", "is not a number"),
        ("SURG1.on=maybe", "true or false"),
        ("SURG1.op=", "empty"),
    ],
)
def test_settings_that_do_not_fit(rules: RuleSet, text: str, message: str) -> None:
    with pytest.raises(RewriterError) as error:
        parse_setting(text, rules._by_code)
    assert message in str(error.value)


def test_digest_ignores_layout(tmp_path: Path) -> None:
    variants = [
        "rule A1 a\nmatch { y = Relu(x) }\nrewrite { y = x }",
        "\n# a comment\n/// What it is for.\nrule A1 a\nmatch {\n  y = Relu(x)\n}\nrewrite { y = x }",
        "rule A1 a\nmatch { y = Abs(x) }\nrewrite { y = x }",
    ]
    digests = []
    for number, text in enumerate(variants):
        path = tmp_path / f"{number}.rules"
        path.write_text(text)
        digests.append((load_rules([path]).rules[0].digest, load_rules([path]).digest))
    assert digests[0] == digests[1]
    assert digests[0][0] != digests[2][0]
    assert digests[0][1] != digests[2][1]


def test_same_code_in_two_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.rules").write_text(f"rule A1 {name}\nmatch {{ y = Relu(x) }}\nrewrite {{ y = x }}")
    with pytest.raises(RewriterError) as error:
        load_rules([tmp_path])
    assert "E401" in str(error.value)
    assert "a.rules:1" in str(error.value)


# --- Files -----------------------------------------------------------------------------------------------------------------


def test_files_are_read_once_and_links_do_no_harm(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "x.rules").write_text("rule A1 a\nmatch { y = Relu(x) }\nrewrite { y = x }")
    (deep / "notes.txt").write_text("no rule")
    (tmp_path / "a" / ".hidden").mkdir()
    (tmp_path / "a" / ".hidden" / "y.rules").write_text("nonsense")
    os.symlink(tmp_path / "a", deep / "round")
    os.symlink(deep / "x.rules", tmp_path / "again.rules")
    os.symlink(tmp_path / "nowhere", tmp_path / "broken.rules")
    assert names(load_rules([tmp_path, deep / "x.rules"])) == ["A1"]


def test_what_cannot_be_read_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.rules").write_bytes(b"# ok\n# caf\xe9\n")
    (tmp_path / "big.rules").write_bytes(b"#" * (1 << 21))
    os.mkfifo(tmp_path / "pipe.rules")
    os.symlink(tmp_path / "loop.rules", tmp_path / "loop.rules")
    for name, message in {
        "latin.rules": "latin.rules:2: not UTF-8 text",
        "big.rules": "too big",
        "pipe.rules": "not a file",
        "loop.rules": "too many levels of symbolic links",
        "missing.rules": "no such file or directory",
    }.items():
        with pytest.raises(RewriterError) as error:
            load_rules([tmp_path / name])
        assert message in str(error.value), name
        assert "\n" not in str(error.value)


def test_empty_folder(tmp_path: Path) -> None:
    assert len(load_rules([tmp_path])) == 0


def test_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "x.rules"
    path.write_bytes(b"\xef\xbb\xbfrule A1 a\r\nmatch { y = Relu(x) }\r\nrewrite { y = x }\r\n")
    assert names(load_rules([path])) == ["A1"]


def test_shipped_rules_load_without_a_complaint() -> None:
    assert load_rules().warnings == ()
