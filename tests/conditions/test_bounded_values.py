"""No expression of a rule makes a value without bound: a 2 kB rule file took 10 GB of memory, another one the whole stack."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

from rewriter.core.conditions import evaluate, rule_values
from rewriter.core.errors import RewriterError
from rewriter.core.language.parse import parse
from rewriter.rule_tools.load_rules import load_rules
from tests.rule_tests import run_tests

RULE = """/// Relu becomes Neg.
rule MY001 relu-to-neg <kind: exact, severity: warning, opset: 7..>
match {{ y = Relu(x) }}
{lets}
where {where}
rewrite {{ y = Neg(x) }}
test "a Relu" ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[4] a) => (float[4] b) {{ b = Relu(a) }}
~~~ becomes ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[4] a) => (float[4] b) {{ b = Neg(a) }}
~~~
test "no Relu" unchanged ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[4] a) => (float[4] b) {{ b = Neg(a) }}
~~~
"""


def doubled(first: str, again: str, times: int = 40) -> str:
    """`let` lines, each of which uses the one before twice."""
    lines = [f"let v0 = {first}", *(f"let v{n} = {again.replace('@', f'v{n - 1}')}" for n in range(1, times))]
    return "\n".join([*lines, f"let last = v{times - 1}"])


def result(lets: str, where: str, folder: Path) -> str:
    """What the test of a rule says; "" if the rule fires."""
    (path := folder / "MY001_relu-to-neg.rules").write_text(RULE.format(lets=lets, where=where))
    return run_tests(load_rules([path]))[0].message


COLUMN_AND_ROW = "let a = ones([100000, 1])\nlet b = ones([1, 100000])\n"

GROWING = {
    "concat": (doubled("ones([4])", "concat(@, @, 0)"), "len(last) > 2"),
    "concat of a list": (doubled("[1, 2]", "to_list(concat(@, @, 0))"), "len(last) > 2"),
    "many constants": (doubled("ones([3000000])", "@ + 1.5"), "len(last) > 2"),
    "matmul": (COLUMN_AND_ROW + "let last = matmul(a, b)", "len(last) > 2"),
    "comparison": (COLUMN_AND_ROW + "let last = a == b", "len(last) > 2"),
    "where": (COLUMN_AND_ROW + "let last = where(a, b, b)", "len(last) > 2"),
    "max": (COLUMN_AND_ROW + "let last = max(a, b)", "len(last) > 2"),
    "take": ("let a = ones([1, 100000])\nlet b = repeat([0], 60000)\nlet last = take(a, b, 0)", "len(last) > 2"),
    "lists in lists": (doubled("[1]", "[@, @]"), "last == last"),
    "texts": (doubled('"x"', "@ + @"), 'last != ""'),
    "repeated lists in a list": ("let a = range(30000)\nlet last = [a, a] * [60000, 60000]", "len(last) > 2"),
    "repeat of a list": ("let last = repeat(range(60000), 4000)", "len(last) > 2"),
    "to_list": ("let last = to_list(ones([16000000], bool))", "len(last) > 2"),
    "texts in a constant": ('let last = repeat(["' + "x" * 50000 + '"], 60000)', "len(last) > 2"),
}


@pytest.mark.parametrize("name", GROWING)
def test_no_value_grows_without_bound(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sixteenth of the limits of constants, so that the test itself takes little memory."""
    monkeypatch.setattr(rule_values, "ARRAY_LIMIT", rule_values.ARRAY_LIMIT // 16)
    monkeypatch.setattr(rule_values, "BYTES_LIMIT", rule_values.BYTES_LIMIT // 16)
    monkeypatch.setattr(evaluate, "BYTES_LIMIT", evaluate.BYTES_LIMIT // 16)
    lets, where = GROWING[name]
    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + (3 << 28), before[1]))
    try:
        assert result(lets, where, tmp_path).startswith("the rule did not fire")
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def chain(first: str, again: str, length: int) -> str:
    """`let` lines, each of which uses the one before."""
    return "\n".join([f"let v0 = {first}", *(f"let v{n} = {again.replace('@', f'v{n - 1}')}" for n in range(1, length))])


def test_a_chain_of_lets_is_as_deep_as_the_stack_bears(tmp_path: Path) -> None:
    assert result(chain("1", "@", 88), "v87 == 1", tmp_path) == ""
    assert result(chain("true", "@ and @", 58), "v57", tmp_path) == ""
    for lets, where in ((chain("1", "@", 3000), "v2999 == 1"), (chain("true", "not @", 200), "v199")):
        with pytest.raises(RewriterError, match=r"E216.*nests 19\d levels deep, with the `let` lines that it uses"):
            result(lets, where, tmp_path)
    assert result(chain("[1]", "[@]", 40), "len(v39) == 1", tmp_path).startswith("the rule did not fire")


def test_thousands_of_defines_that_call_each_other_are_read_in_linear_time() -> None:
    """They took 15 seconds."""
    text = "define d0(x) = rank(x) == 1\n" + "".join(f"define d{n}(x) = d{n - 1}(x)\n" for n in range(1, 1990))
    started = time.process_time()
    file, problems = parse(text)
    assert not problems and len(file.defines) == 1990
    assert time.process_time() - started < 5


def test_constants_of_the_size_of_real_weights_are_made(tmp_path: Path) -> None:
    lets = "let a = ones([4096, 4096])\nlet b = transpose(a)\nlet c = reshape(b, [-1])\nlet d = a * 2.0"
    assert result(lets, "len(c) == 16777216 and len(d) == 4096", tmp_path) == ""
