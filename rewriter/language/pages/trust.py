"""Pages of E5xx and W5xx: what running a rule says of it (`rewriter verify`)."""

from __future__ import annotations

from rewriter.language.pages.page import Page

PAGES = (
    Page(
        "E501",
        "a counterexample was found",
        """
`rewriter verify` has applied the rule to a model on which it does not keep its promise: numbers differ by more than
its kind allows, a runtime refuses the result, or rewriting does not come to an end. The model is printed with its
inputs and every tensor before and after. Add the condition that the rule forgets, or promise less.
""",
        """
rule DOC1 matmul-add <kind: exact, opset: 11..>
match { y = Add(MatMul(a, b), c) }
where rank(a) == 2 and rank(b) == 2
rewrite { y = Gemm(a, b, c) }
""",
        """
rule DOC1 matmul-add <kind: approx(rtol=1e-4), opset: 11..>
match { y = Add(MatMul(a, b), c) }
where rank(a) == 2 and rank(b) == 2 and dtype(a) == float
where rank(c) == 1 and dim(c, 0) == dim(b, 1)
rewrite { y = Gemm(a, b, c) }
""",
    ),
    Page(
        "E502",
        "unverified for no written reason",
        """
Nothing that was run speaks for the rule: no instance of its pattern runs in an oracle, or it is a repair that changes
numbers and no recorded export shows the right ones. Add a test from which instances can be made, or a recorded
export, or say in the header why neither is possible.
""",
        """
rule DOC1 slope <kind: repair>
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.01 }
""",
        """
rule DOC1 slope <kind: repair, unverified: "the slope stands in no file; 0.01 is the framework's default">
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.01 }
""",
    ),
    Page(
        "W504",
        "nothing goes wrong without this condition",
        """
`rewriter verify` has tried the rule without the line, and no test failed, no number differed, no model was refused
and no sound model was repaired. Either the line was never needed, or the instances are too weak to show what it is
for; a test in which the rule must not fire (`unchanged`) shows it.
""",
        """
rule DOC1 no-op <kind: exact>
match { y = Identity(x) }
where rank(x) != 3
rewrite { y = x }
""",
        """
rule DOC1 no-op <kind: exact>
match { y = Identity(x) }
rewrite { y = x }
""",
    ),
)
