"""Pages of E25x and E4xx, W4xx: the header, and what rules have to do with each other."""

from __future__ import annotations

from rewriter.language.messages.page import Page

PAGES = (
    Page(
        "E251",
        "an unknown header key",
        """
The keys are: kind, evidence, exporter, versions, opset, ir, severity, phase, before, needs, default, target, issue,
symptom, question, unverified.
""",
        """
rule DOC1 header <kind: exact, opsets: 9..>
match { y = Identity(x) }
rewrite { y = x }
""",
        """
rule DOC1 header <kind: exact, opset: 9..>
match { y = Identity(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E252",
        "a header value that is not understood",
        """
    kind      exact, approx(rtol=..., atol=...), repair, lossy, interface
    evidence  refused, refused(onnxruntime), contradiction, source, exporter, guess
    exporter  a name or a list of names; versions: comparisons such as ">=1.3,<1.9"
    opset, ir a range: 9.. or ..12 or 9..12; an open beginning of `opset` means 7
    severity  error, warning, info
    phase     interface, repair, canonical, optimize, cleanup
    before    the code of a rule, or a list of codes
    needs     source
    default   on, off; not `on` beside a target, which runs only where --target names it
    target    a consumer in small letters, digits and hyphens, or a list: tensorrt

Each key is written once.
""",
        """
rule DOC1 header <kind: exact, severity: fatal>
match { y = Identity(x) }
rewrite { y = x }
""",
        """
rule DOC1 header <kind: exact, severity: error>
match { y = Identity(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E253",
        "a bound is missing or out of place",
        """
A rule of kind approx says how far its results may be off: rtol, atol or both. The other kinds have no bound.
""",
        """
rule DOC1 header <kind: approx>
match { y = Identity(x) }
rewrite { y = x }
""",
        """
rule DOC1 header <kind: approx(rtol=1e-4)>
match { y = Identity(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E254",
        "a repair without evidence, or evidence without a repair",
        """
A repair changes what a model computes, or makes a refused model one that is accepted. The header says what makes that
certain:

    refused              wherever the pattern and the conditions hold, the model is invalid or ONNX Runtime refuses it
    refused(onnxruntime) only that runtime, as it is installed, refuses it; the rule fires nowhere else
    contradiction        the model declares something that its own nodes contradict, and a condition asks for it
    source               the framework's own file says so of this very node
    exporter             marks that only the defect of this exporter leaves, in a range of versions
    guess                the model does not tell; the rule runs only with --guess or when its code is selected

Other kinds promise the same numbers, or run only when selected, and have no evidence.
""",
        """
rule DOC1 slope <kind: repair>
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.01 }
""",
        """
rule DOC1 slope <kind: repair, evidence: guess>
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.01 }
""",
    ),
    Page(
        "E255",
        "the rule does not ask for its evidence",
        """
A rule that appeals to the framework's own file needs it (`needs: source`), one that appeals to an exporter names it
(`exporter:`), and one that appeals to a contradiction asks in a condition what the model declares (`declared_dtype`,
`declared_rank`, `declared_shape`, `model.misdeclared_outputs`).
""",
        """
rule DOC1 slope <kind: repair, evidence: exporter>
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.01 }
""",
        """
rule DOC1 slope <kind: repair, evidence: exporter, exporter: "acme", versions: "<2">
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.01 }
""",
    ),
    Page(
        "E401",
        "two rules have the same code",
        """
The code is what selects, sets and reports a rule; it is unique in everything that is loaded together.
""",
        """
rule DOC1 first <kind: exact>
match { y = Identity(x) }
rewrite { y = x }

rule DOC1 second <kind: exact>
match { y = Dropout(x) }
rewrite { y = x }
""",
        """
rule DOC1 first <kind: exact>
match { y = Identity(x) }
rewrite { y = x }

rule DOC2 second <kind: exact>
match { y = Dropout(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E403",
        "`before` goes round in a circle",
        """
`before` decides between rules that are equally specific. Following it from a rule must not lead back to that
rule.
""",
        """
rule DOC1 first <kind: exact, before: DOC2>
match { y = Identity(x) }
rewrite { y = x }

rule DOC2 second <kind: exact, before: DOC1>
match { y = Dropout(x) }
rewrite { y = x }
""",
        """
rule DOC1 first <kind: exact, before: DOC2>
match { y = Identity(x) }
rewrite { y = x }

rule DOC2 second <kind: exact>
match { y = Dropout(x) }
rewrite { y = x }
""",
    ),
    Page(
        "W402",
        "`before` names a rule that is not loaded",
        """
It has no effect. That is harmless when the other rule is in a file that was left out, and a misspelling
otherwise.
""",
        """
rule DOC1 first <kind: exact, before: DOC22>
match { y = Identity(x) }
rewrite { y = x }

rule DOC2 second <kind: exact>
match { y = Dropout(x) }
rewrite { y = x }
""",
        """
rule DOC1 first <kind: exact, before: DOC2>
match { y = Identity(x) }
rewrite { y = x }

rule DOC2 second <kind: exact>
match { y = Dropout(x) }
rewrite { y = x }
""",
    ),
)
