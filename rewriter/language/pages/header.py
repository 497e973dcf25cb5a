"""Pages of E25x and E4xx, W4xx: the header, and what rules have to do with each other."""

from __future__ import annotations

from rewriter.language.pages.page import Page

PAGES = (
    Page(
        "E251",
        "an unknown header key",
        """
The keys are: kind, exporter, versions, opset, ir, severity, phase, before, needs, default, target, issue,
symptom, unverified.
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
    exporter  a name or a list of names; versions: comparisons such as ">=1.3,<1.9"
    opset, ir a range: 9.. or ..12 or 9..12; an open beginning of `opset` means 7
    severity  error, warning, info
    phase     interface, repair, canonical, optimize, cleanup
    before    the code of a rule, or a list of codes
    needs     source
    default   on, off; not `on` beside a target, which runs only where --target names it
    target    a consumer in small letters, digits and hyphens, or a list: tensorrt

Each key stands once.
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
