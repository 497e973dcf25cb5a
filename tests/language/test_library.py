"""Rules from the cache: the same as compiled ones, and never what a changed text no longer says."""

from __future__ import annotations

import dataclasses
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rewriter.core import resources
from rewriter.core.engine.compile import prepared
from rewriter.core.errors import RewriterError
from rewriter.core.language import ast
from rewriter.core.language.diagnostics import Diagnostic, RuleFileError, SourceText
from rewriter.core.language.rule_files import built, find_rule_files, flat, pack, unpack, without_places
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.rule_tools import load_rules as loading
from rewriter.rule_tools.load_rules import Library, load_rules, read_rules
from rewriter.rule_tools.load_rules import _parsed as checked

RULE = "rule A1 a <before: B9>\nmatch { y = Relu(x) }\nwhere size(x, 1..) == 2.5 or dtype(x) in [float, int64]\nrewrite { y = x }\n"
TWO = RULE + RULE.replace("rule A1 a <before: B9>", "rule B9 b")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own, for calls that remember as little of each other as those of different processes."""
    monkeypatch.setattr(loading, "KEPT", 0)
    monkeypatch.setattr(loading, "_recent", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / "rewriter"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "a.rules").write_text(RULE)
    return tmp_path / "a.rules"


def entries(home: Path) -> list[Path]:
    return sorted(home.glob("rules-*"))


def compiled(monkeypatch: pytest.MonkeyPatch, paths: list[Path]) -> RuleSet:
    """As it is without anything kept."""
    with monkeypatch.context() as patch:
        patch.setattr(Library, "read", lambda library, kind: None)
        patch.setattr(Library, "write", lambda library, kind, rules, warnings: None)
        return load_rules(paths)


def never(*args: object) -> None:
    raise AssertionError("compiled again")


@pytest.fixture(scope="module")
def compilation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RuleSet]:
    """A cache folder with the shipped rules, and the result of the compilation that filled it."""
    folder = tmp_path_factory.mktemp("compilation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "KEPT", 0)
        patch.setattr(loading, "_recent", {})
        patch.setenv("XDG_CACHE_HOME", str(folder))
        return folder, load_rules()


@pytest.fixture
def shipped(compilation: tuple[Path, RuleSet], monkeypatch: pytest.MonkeyPatch) -> RuleSet:
    """The shipped rules as they were compiled. The cache folder has them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(compilation[0]))
    return compilation[1]


def test_rules_from_the_cache_equal_compiled_ones(shipped: RuleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = shipped
    monkeypatch.setattr("rewriter.rule_tools.load_rules._compiled", never)
    found = load_rules()
    assert found == expected
    assert found.digest == expected.digest
    for one, other in zip(found, expected, strict=True):
        assert one.front == other.front
        assert (one.title, one.source.text) == (other.title, other.source.text)
        assert one.ast == other.ast
        assert repr(one.ast) == repr(other.ast)


def test_a_process_loads_files_once_while_they_stay_as_they_are(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "KEPT", 4)
    assert (
        load_rules([file]).rules[0] is not load_rules([file]).rules[0]
    )  # it was just written, and may be so again without a trace
    monkeypatch.setattr(loading, "CLOCK_STEP", -(10**18))
    found = load_rules([file])
    assert load_rules([file]).rules[0] is found.rules[0] and prepared(found.select(["A1"]), {}) is prepared(
        found.select(["A1"]), {}
    )
    file.write_text(RULE.replace("A1", "A2"))
    assert [rule.code for rule in load_rules([file])] == ["A2"]


@pytest.mark.usefixtures("shipped")
def test_beside_the_shipped_rules_only_others_are_compiled(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = find_rule_files(None)
    rules = load_rules()
    monkeypatch.setattr("rewriter.rule_tools.load_rules._parsed", lambda texts, watch: compiling(texts, [str(file)]))
    both = load_rules([*shipped, file])
    assert (len(both), both.get("A1")) == (len(rules) + 1, load_rules([file]).get("A1"))
    assert [(warning.code, warning.path) for warning in both.warnings] == [("W402", str(file))]
    file.write_text(RULE.replace("A1", "MX001").replace("B9", "MX061"))
    with pytest.raises(RuleFileError) as raised:
        load_rules([*shipped, file])
    assert [(found.code, found.path) for found in raised.value.diagnostics] == [("E401", str(file))]
    with pytest.raises(RuleFileError) as raised:
        load_rules([file, *shipped])
    assert [(found.code, found.path in shipped) for found in raised.value.diagnostics] == [("E401", True)]
    assert load_rules([file]).warnings[0].code == "W402"


def compiling(texts: Sequence[SourceText], paths: list[str]) -> tuple[list[Rule], list[Diagnostic]]:
    assert [text.path for text in texts] == paths
    return checked(texts)


def test_trees_are_unpacked_when_they_are_asked_for(file: Path) -> None:
    file.write_text(TWO)
    load_rules([file])
    rule, _ = load_rules([file])
    assert (rule.code, rule.before, rule.kind.name) == ("A1", ("B9",), "exact")
    sent = pickle.loads(pickle.dumps(rule))
    assert isinstance(vars(rule)["_tree"], tuple)
    assert sent == rule
    assert isinstance(rule.ast, ast.Rule)


def test_warnings_come_from_the_cache(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = compiled(monkeypatch, [file])
    load_rules([file])
    monkeypatch.setattr("rewriter.rule_tools.load_rules._compiled", never)
    found = load_rules([file])
    assert [warning.code for warning in found.warnings] == ["W402"]
    assert found.warnings == expected.warnings
    assert found.sources.keys() == expected.sources.keys()


def test_only_files_that_are_compiled_are_watched(file: Path) -> None:
    watched: list[str] = []

    def watch(sources: Sequence[SourceText]) -> Sequence[SourceText]:
        watched.extend(source.path for source in sources)
        return sources

    for _ in range(2):
        assert len(load_rules([file], watch)) == 1
    assert watched == [str(file)]


def test_errors_are_not_in_the_cache(file: Path, home: Path) -> None:
    file.write_text(RULE.replace("Relu", "Rleu"))
    for _ in range(2):
        with pytest.raises(RuleFileError, match="E101"):
            load_rules([file])
    assert entries(home) == []


def test_a_changed_text_is_compiled(file: Path) -> None:
    before = load_rules([file])
    written = file.stat()
    file.write_text(RULE.replace("Relu", "Tanh"))
    os.utime(file, ns=(written.st_atime_ns, written.st_mtime_ns))  # size and time say nothing
    after = load_rules([file])
    assert before.digest != after.digest
    assert after.rules[0].ast.match.nodes[0].ops[0].name == "Tanh"


def test_a_copy_of_a_folder_is_not_compiled_again(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the rules of a checkout, which are also installed."""
    file.write_text("rule A1 a match { y = Softmax(x) } rewrite { y = Softmax(x) }")
    expected = load_rules([file])
    assert [warning.code for warning in expected.warnings] == ["W301"]
    (tmp_path / "other").mkdir()
    copy = tmp_path / "other" / file.name
    copy.write_text(file.read_text())
    monkeypatch.setattr(loading, "_compiled", never)
    found = load_rules([copy])
    assert found.digest == expected.digest
    assert {rule.path for rule in found} == {warning.path for warning in found.warnings} == set(found.sources) == {str(copy)}


def test_rules_beside_defines_are_loaded_once(tmp_path: Path) -> None:
    (tmp_path / "defines.rules").write_text(
        "define d(x) = size(x) > 2\nrule A1 a match { y = Softmax(x) } rewrite { y = Softmax(x) }"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.rules").write_text("rule B1 b match { y = Relu(x) } where d(x) rewrite { y = x }")
    for paths in ([tmp_path], [tmp_path / "in" / "b.rules"]):
        found = load_rules(paths)
        assert [rule.code for rule in found] == [rule.code for rule in read_rules(paths)] == ["A1", "B1"]
        assert [warning.code for warning in found.warnings] == ["W301"]


def test_names_count(file: Path, tmp_path: Path) -> None:
    load_rules([file])
    other = file.rename(tmp_path / "b.rules")
    found = load_rules([other])
    assert found.rules[0].path == str(other)
    assert found.warnings[0].path == str(other)


def test_another_version_compiles(file: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_rules([file])
    monkeypatch.setattr(resources, "_versions", lambda: "another")
    load_rules([file])
    assert len(entries(home)) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b"A1", b"A2", 1),
        lambda data: data[:20],
        lambda data: b"",
        lambda data: data[:60] + b"!" + data[61:],
    ],
)
def test_damage_is_mended(file: Path, home: Path, damage: object) -> None:
    expected = load_rules([file])
    (entry,) = entries(home)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))  # type: ignore[operator]
    assert load_rules([file]) == expected
    assert entry.read_bytes() == whole


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="ownership is a matter of POSIX")
def test_what_others_can_write_is_not_read(file: Path, home: Path) -> None:
    expected = load_rules([file])
    (entry,) = entries(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    entry.write_bytes(b"x")
    entry.chmod(0o666)
    assert load_rules([file]) == expected
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


@pytest.mark.parametrize("place", ["a file", "no rights"])
def test_without_a_folder(place: str, file: Path, home: Path) -> None:
    if place == "a file":
        home.write_text("")
    else:
        home.mkdir(mode=0o500)
    assert [rule.code for rule in load_rules([file])] == ["A1"]
    assert [rule.code for rule in load_rules([file])] == ["A1"]


def test_old_entries_go(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "MAX_ENTRIES", 8)
    file = tmp_path / "a.rules"
    file.write_text(RULE)
    load_rules([file])
    (first,) = entries(home)
    os.utime(first, (1, 1))
    (home / ".rules-left").write_text("by a process that died")
    os.utime(home / ".rules-left", (2, 2))
    for number in range(resources.MAX_ENTRIES):
        file.write_text(RULE + f"# {number}\n")
        load_rules([file])
    assert len(list(home.iterdir())) == resources.MAX_ENTRIES
    assert first not in entries(home)
    assert list(home.glob(".rules-*")) == []


def test_large_entries_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "MAX_BYTES", 2_500_000)
    for number in range(4):
        resources.write("test", str(number), "x" * 1_000_000)
        os.utime(max(home.iterdir(), key=lambda file: file.stat().st_mtime), (number, number))
    assert [resources.read("test", str(number)) is None for number in range(4)] == [True, True, False, False]


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as untouched for long at once."""
    monkeypatch.setattr(loading, "CLOCK_STEP", -(10**12))


@pytest.mark.usefixtures("settled")
def test_texts_of_untouched_files_are_not_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load_rules([file])
    with monkeypatch.context() as patch:
        patch.setattr(loading, "read_rule_file", never)
        found = load_rules([file])
    assert found == expected
    assert found.rules[0].source.text == RULE
    assert found.sources[str(file)].text == RULE


def test_files_that_were_just_written_are_read(file: Path, home: Path) -> None:
    for _ in range(2):
        load_rules([file])
        assert list(home.glob("states-*")) == []


@pytest.mark.usefixtures("settled")
def test_a_change_without_a_trace_but_of_its_own_time_is_seen(file: Path) -> None:
    load_rules([file])
    test_a_changed_text_is_compiled(file)


@pytest.mark.usefixtures("settled")
def test_a_text_that_changed_since_is_refused(file: Path) -> None:
    load_rules([file])
    (rule,) = load_rules([file])
    file.write_text(RULE.replace("Relu", "Sinh"))
    with pytest.raises(RewriterError, match="changed after it was read"):
        _ = rule.source.text
    assert rule.ast.match.nodes[0].ops[0].name == "Relu"


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", ["rules", "states", "both"])
def test_damage_of_trees_and_states(damage: str, file: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load_rules([file])
    for kind in ("rules", "states"):
        if damage in (kind, "both"):
            (entry,) = home.glob(f"{kind}-*")
            entry.write_bytes(entry.read_bytes()[:-3] + b"!!!")
    for _ in range(3):
        assert load_rules([file]) == expected
    monkeypatch.setattr("rewriter.rule_tools.load_rules._compiled", never)
    assert load_rules([file]) == expected
    assert len(entries(home)) == len(list(home.glob("states-*"))) == 1


def test_trees_may_go_while_rules_are_in_use(file: Path, home: Path) -> None:
    (expected,) = load_rules([file])
    (rule,) = load_rules([file])
    (entry,) = entries(home)
    entry.unlink()
    assert rule.ast == expected.ast


def test_what_may_match_is_kept_without_its_places(file: Path) -> None:
    file.write_text(TWO)
    first, _ = load_rules([file])
    rule, _ = load_rules([file])
    question = rule.question
    assert isinstance(vars(rule)["_tree"], tuple)
    assert (question.code, question.tests, question.rewrites) == ("A1", (), ())
    assert question.match.nodes[0].ops[0].name == "Relu"
    assert question.match.span == ast.NOWHERE
    for mine, theirs in ((question.match, first.ast.match), (question.wheres, first.ast.wheres)):
        assert built(without_places(flat(theirs))) == mine


def test_every_record_can_be_packed() -> None:
    for kind in vars(ast).values():
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            values = [None if field.type != "Span" else ast.Span(1, 2) for field in dataclasses.fields(kind)]
            if kind is not ast.Span:
                assert unpack(pack(flat(kind(*values)))) == kind(*values)
    shape = ast.TypePattern("float", (1, "N", None, ..., -2))
    assert unpack(pack(flat((shape, True, 1.5, "é\ud800", ())))) == (shape, True, 1.5, "é\ud800", ())


def test_reading_imports_neither_onnx_nor_lark(file: Path) -> None:
    load_rules([file])
    program = (
        "import sys, rewriter\n"
        "assert [rule.ast.code for rule in rewriter.load_rules([sys.argv[1]])] == ['A1']\n"
        "found = [name for name in ('onnx', 'lark', 'numpy', 'tempfile', 'rewriter.rule_tools.checks.check') if name in sys.modules]\n"
        "assert not found, found\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_missing_path_is_told_as_before(tmp_path: Path) -> None:
    with pytest.raises(RewriterError, match="no such file or directory"):
        load_rules([tmp_path / "no.rules"])
    with pytest.raises(RewriterError, match="no such file or directory; the file of a rule: rewriter rule MX001"):
        load_rules(["MX001"])
