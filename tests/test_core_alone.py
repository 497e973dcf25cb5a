"""The core runs a rule on a graph where no other tier is: what it needs stands in it, and in nothing that it imports lazily."""

from __future__ import annotations

import subprocess
import sys
import textwrap

HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("rewriter.") and name.split(".")[1] not in ("core", "grammar"):
            raise ModuleNotFoundError(f"{name} is hidden", name=name)

sys.meta_path.insert(0, Hidden())

import numpy as np
import onnx_graphsurgeon as gs
from rewriter.core.engine.run import run
from rewriter.core.language.diagnostics import SourceText
from rewriter.core.language.parse import parse
from rewriter.core.language.rules import Rule
from rewriter.core.language.rules import RuleSet

def rules(text):
    read, problems = parse(text)
    assert not problems, problems
    source = SourceText(text, "<text>")
    return RuleSet(tuple(Rule(rule, "<text>", source) for rule in read.rules), selected=True)

x, a, b, y = (gs.Variable(name, np.float32, ("N", 4)) for name in "xaby")
graph = gs.Graph([gs.Node("Relu", "one", inputs=[x], outputs=[a]), gs.Node("Relu", "two", inputs=[a], outputs=[b]),
                  gs.Node("Abs", "", inputs=[b], outputs=[y])], [x], [y], opset=17)
"""

RULE = """
rule T001 twice
<kind: exact, phase: optimize, opset: 7..>

match { b = Relu(Relu(x)) }
where rank(x) == 2
rewrite { b = Relu(x) }
"""

FAULT = """
rule T002 unnamed
<kind: exact, phase: repair, opset: 7..>

match graph { }
where model.unnamed_nodes != []
rewrite { mend model.unnamed_nodes }
"""


def alone(rules: str, program: str) -> subprocess.CompletedProcess[str]:
    """What a program does to which everything but the core is missing."""
    whole = f"{HIDDEN}\nfound = rules('''{rules}''')\n{textwrap.dedent(program)}"
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True)


def test_the_core_runs_a_rule() -> None:
    done = alone(
        RULE,
        """
        log = run(graph, found)
        print(*(firing.rule for firing in log.firings), *(node.op for node in graph.nodes))
        """,
    )
    assert (done.stdout, done.stderr) == ("T001 Relu Abs\n", "")


def test_a_rule_that_needs_a_repair_of_the_whole_model_says_so() -> None:
    done = alone(FAULT, "print(*(blocked.reason for blocked in run(graph, found).blocked))")
    assert (done.stdout, done.stderr) == ("a rule repairs the model as a whole, and rewriter.repairs is not here\n", "")


def test_the_other_tiers_are_hidden() -> None:
    done = alone(RULE, "import rewriter.repairs")
    assert "rewriter.repairs is hidden" in done.stderr
