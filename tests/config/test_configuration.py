"""Configuration files: what is found, what is read, and what is said of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewriter.app.configuration import Configuration, named, nearest
from rewriter.core.errors import RewriterError
from rewriter.trust.toml_text import line_of, lines, parse

FULL = """\
# a comment = 1
select = [
  "DEFAULT",  # ] not the end
  "PT",
]
"source" = "weights/net-symbol.json"
set.SURG010.batch = "B"
set.'OPT001'.axes = [1, 2]
note = '''
[suppress]
'''

[[suppress]]
rule = "MX001"
node = "encoder.*"
reason = "a # in a text"

  [[suppress]]  # the second
  rule = "MX"
  path = ["a/*"]
  reason = '''two
lines'''

[[per-path]]
path = "legacy/*"
[per-path.set]
"SURG010.batch" = 3
"""


def write(folder: Path, text: str, name: str = "rewriter.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def read(tmp_path: Path, text: str) -> Configuration:
    return named(write(tmp_path, text))


def test_everything(tmp_path: Path) -> None:
    found = read(tmp_path, FULL.replace("note = '''\n[suppress]\n'''", ""))
    assert found.values["select"].value == ["DEFAULT", "PT"]
    assert found.values["source"].value == str(tmp_path / "weights" / "net-symbol.json")
    assert found.values["set"].value == ['SURG010.batch="B"', "OPT001.axes=[1, 2]"]
    first, second = found.suppress
    assert (first.rule, first.node, first.path, first.reason) == ("MX001", "encoder.*", (), "a # in a text")
    assert (second.rule, second.node, second.path) == ("MX", None, ("a/*",))
    assert found.per_path[0].settings["set"].value == ["SURG010.batch=3"]


def test_lines() -> None:
    found = lines(FULL)
    where = {text: number for number, text in enumerate(FULL.splitlines(), 1)}
    assert found["select",] == 2
    assert found["source",] == where['"source" = "weights/net-symbol.json"']
    assert found["set", "OPT001", "axes"] == where["set.'OPT001'.axes = [1, 2]"]
    assert found["suppress", 0] == where["[[suppress]]"]
    assert found["suppress", 0, "reason"] == where['reason = "a # in a text"']
    assert found["suppress", 1] == where["  [[suppress]]  # the second"]
    assert found["per-path", 0, "path"] == where['path = "legacy/*"']
    assert found["per-path", 0, "set", "SURG010.batch"] == where['"SURG010.batch" = 3']
    assert line_of(found, ("per-path", 0, "select", "x")) == where["[[per-path]]"]


TEXTS = st.text(alphabet="ab[]{}=\"'#\\\n .,", max_size=12)


@given(st.lists(st.tuples(st.sampled_from("abcde"), TEXTS), unique_by=lambda pair: pair[0], max_size=5), st.booleans())
def test_lines_are_not_led_astray_by_what_stands_in_texts(pairs: list[tuple[str, str]], literal: bool) -> None:
    text, wanted = "", {}
    for key, value in pairs:
        wanted[key] = text.count("\n") + 1
        if literal and "'" not in value:
            text += f"{key} = '''{value}'''\n"
        else:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            text += f'{key} = """{escaped}"""\n'
    assert set(parse(text, "a text")) == set(wanted)
    assert {key[0]: line for key, line in lines(text).items()} == wanted


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("\nselct = []", 2, "there is no key `selct`; did you mean `select`?"),
        ("max_firings = 3", 1, "there is no key `max_firings`; did you mean `max-firings`?"),
        ("xyz = 1", 1, "there is no key `xyz`; there are rules, extend, select"),
        ('select = "MX"', 1, "`select` is a list of codes"),
        ("\n\njobs = true", 3, "`jobs` is a positive number"),
        ("timeout = -1", 1, "`timeout` is a time in seconds"),
        ("tidy = 1", 1, "`tidy` is true or false"),
        ('constant-inputs = "maybe"', 1, '`constant-inputs` is "auto", "yes" or "no"'),
        ("[set]\nSURG010 = 3", 1, "`set` is a table of parameters"),
        ("suppress = 3", 1, "`suppress` is an array of tables; each begins with [[suppress]]"),
        ('\n[[suppress]]\nrule = "MX001"', 2, "a table of `suppress` needs `reason`"),
        ('[[suppress]]\nrule = "MX001"\nresaon = "x"', 3, "there is no key `resaon`; did you mean `reason`?"),
        ('[[suppress]]\nrule = 3\nreason = "x"', 2, "`rule` is a text"),
        ('[[per-path]]\npath = "a"\njobs = 2', 3, "there is no key `jobs`"),
        ('[[per-path]]\npath = "a"\nselect = 2', 3, "`select` is a list of codes"),
        ("[[per-path]]\npath = [1]", 2, "`path` is a pattern or a list of patterns"),
        ("select = [\n", 2, "not TOML: "),
        ("a = 1\na = 2", 2, "not TOML: "),
        ("a = " + "[" * 5000 + "]" * 5000, 1, "not TOML: "),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(RewriterError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'rewriter.toml'}:{line}: {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(RewriterError, match=r"rewriter.toml: no such file"):
        named(tmp_path / "rewriter.toml")
    (tmp_path / "rewriter.toml").write_bytes(b"\xff")
    with pytest.raises(RewriterError, match="not UTF-8"):
        named(tmp_path / "rewriter.toml")
    with pytest.raises(RewriterError, match=r"it has no table \[tool.rewriter\]"):
        named(write(tmp_path, "[tool.ruff]", "pyproject.toml"))


def test_the_nearest_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(below)
    assert nearest().path is None
    write(tmp_path, "[tool.rewriter]\njobs = 2", "pyproject.toml")
    write(tmp_path / "a", "[tool.ruff]\n[project]\nname = 'rewriter'", "pyproject.toml")
    found = nearest()
    assert (found.values["jobs"].value, found.values["jobs"].origin) == (2, f"{tmp_path / 'pyproject.toml'}:2")
    write(tmp_path / "a", "jobs = 3")
    found = nearest()
    assert found.path == tmp_path / "a" / "rewriter.toml"


def test_the_search_ends_at_the_top_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "jobs = 2")
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repository")
    assert nearest().path is None


def test_strangers_do_not_configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "jobs = 2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.getuid", lambda: 4242)
    if (tmp_path / "rewriter.toml").stat().st_uid == 0:
        pytest.skip("files of root are everybody's")
    assert nearest().path is not None
    tmp_path.chmod(0o777)
    assert nearest().path is None


def test_paths_are_seen_from_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, "")
    assert found.fits(("models/*.onnx",), str(tmp_path / "models" / "deep" / "a.onnx"))
    assert not found.fits(("models/*.onnx",), str(tmp_path / "other" / "a.onnx"))
