"""A rule pack to begin with: a package that pip installs, whose rules `rewriter` finds, and that tests itself."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from rewriter.core.errors import RewriterError, reason
from rewriter.core.language.rule_files import find_rule_files
from rewriter.core.onnxfile.files import write_file
from rewriter.core.record import record
from rewriter.rule_tools.format import format_text
from rewriter.trust.proof.rules.verdict import NAME as LOCK

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40
_PREFIX = 8  # letters of the code of a rule


@record(frozen=True, slots=True)
class NewPack:
    """The names of a pack and its parts.

    Attributes:
        name: the name of the entry point, as in pack:NAME.
        distribution: the name that pip installs.
        package: the name of the Python package.
        code: the code of the first rule.
    """

    name: str
    distribution: str
    package: str
    code: str

    @property
    def rules(self) -> str:
        """The folder of the rules, relative to the folder of the pack."""
        return f"{self.package}/rules"


def named(name: str) -> NewPack:
    """The names of a pack. Its codes begin unlike the codes of the shipped rules, which the names of their files show.

    Raises:
        RewriterError: no package can have this name.
    """
    short = name.removesuffix("-rules")
    package = f"{short.replace('-', '_')}_rules"
    if not _NAME.fullmatch(name) or len(name) > _LONGEST or keyword.iskeyword(short) or package in sys.stdlib_module_names:
        raise RewriterError(f"{name!r} is no name of a pack: small letters, digits and single hyphens, as my-company")
    letters = re.sub(r"[^A-Z]", "", short.upper())[:_PREFIX] or "MY"
    known = {found[0] for file in find_rule_files(None) if (found := re.match(r"[A-Z]+", Path(file).name))}
    while letters in known:
        letters += "X"
    return NewPack(short, f"{short}-rules", package, f"{letters}001")


def write_pack(pack: NewPack, folder: Path) -> list[Path]:
    """Writes a pack into a new folder and returns its files.

    Raises:
        RewriterError: the folder exists, or cannot be made.
    """
    files = {path: text.format_map(_words(pack)) for path, text in _FILES.items()}
    rule = format_text(_RULE.replace("CODE", pack.code))
    files[f"{pack.rules}/{pack.code}_absolute-value-of-relu.rules"] = rule
    files[f"{pack.rules}/{LOCK}"] = '{"schema": 1, "oracles": {}, "rules": {}}\n'
    files[f"{pack.package}/__init__.py"] = f'"""The rule pack {pack.name}. Nothing in it runs; rules are text."""\n'
    try:
        folder.mkdir(parents=False)
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text.encode(), force=False)
    except FileExistsError:
        raise RewriterError(f"{folder} exists; name a folder that does not with -o") from None
    except OSError as error:
        raise RewriterError(f"{folder}: {reason(error)}") from None
    return [folder / name for name in files]


def _words(pack: NewPack) -> Mapping[str, str]:
    return {
        "name": pack.name,
        "distribution": pack.distribution,
        "package": pack.package,
        "rules": pack.rules,
        "next_code": f"{pack.code.removesuffix('001')}002",
    }


_RULE = """\
/// The absolute value of a Relu is the Relu.
///
/// An example to begin with: `rewriter new` begins a rule from a model. Relu returns no negative value, so Abs changes nothing.
rule CODE absolute-value-of-relu <kind: exact, opset: 7.., severity: warning>
match { h = Relu(x)  y = Abs(h) }
rewrite { y = h }

test "floats" ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[N,4] x) => (float[N,4] y) { h = Relu(x)  a = Abs(h)  y = Neg(a) }
~~~ becomes ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[N,4] x) => (float[N,4] y) { h = Relu(x)  y = Neg(h) }
~~~
test "another operator" unchanged ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[N,4] x) => (float[N,4] y) { h = Tanh(x)  y = Abs(h) }
~~~
"""

_FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "{distribution}"
version = "0.1.0"
description = "Rewrite rules for ONNX models: pack {name}"
readme = "README.md"
requires-python = ">=3.10"
dependencies = []  # rules are text; install rewriter from a clone of its repository

[project.optional-dependencies]
test = ["pytest>=8"]

[project.entry-points."rewriter.rules"]
{name} = "{package}.rules"

[tool.setuptools]
packages = ["{package}"]

[tool.setuptools.package-data]
{package} = ["rules/**/*.rules", "rules/verified.lock.json"]

[tool.rewriter]
extend = ["{rules}"]  # in this folder the rules run in addition to the shipped rules

[tool.pytest.ini_options]
testpaths = ["tests"]
""",
    "README.md": """\
# {distribution}

Rules for rewriter, as a package:

    pip install ./{distribution}
    rewriter fix net.onnx -o fixed.onnx --extend pack:{name}

To run them in each call, write `extend = ["pack:{name}"]` into `rewriter.toml`. They run in addition to the shipped rules.

The rules are in `{rules}`, one a file. To work on them:

    pip install -e ".[test]"
    rewriter new {next_code} --from net.onnx --around NODE -o {rules}/{next_code}_what-is-wrong.rules
    rewriter test {rules} --watch
    rewriter fmt {rules} && rewriter lint {rules}
    rewriter verify {rules} --update-lock
    python -m pytest

CI installs rewriter, which is not on PyPI, from a wheel in `tools/`. To build it:

    pip wheel --no-deps -w tools path/to/a/clone/of/rewriter

`verified.lock.json` records the verdicts of `verify`, so that `verify` runs only changed rules again.
""",
    "tests/test_rules.py": '''\
"""The rules are laid out, tested, free of contradictions, and verified as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

RULES = Path(__file__).parent.parent / "{rules}"


@pytest.mark.parametrize(
    "command", [["fmt", "--check"], ["test"], ["lint"], ["verify", "--locked"]], ids=lambda words: words[0]
)
def test_rules(command):
    call = [sys.executable, "-m", "rewriter", *command, str(RULES)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
''',
    ".github/workflows/ci.yml": """\
name: ci
on: [push, pull_request]
jobs:
  rules:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install "$(ls tools/onnx_rewriter-*.whl)[verify]"
      - run: pip install -e ".[test]"
      - run: python -m pytest
      - run: rewriter verify {rules} --no-lock
""",
    ".gitignore": "__pycache__/\n*.egg-info/\nbuild/\ndist/\n",
}
