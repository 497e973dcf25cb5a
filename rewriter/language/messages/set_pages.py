"""Pages of E404 to E409 and their warnings: what `rewriter lint` finds between the rules of a set."""

from __future__ import annotations

from rewriter.language.messages.page import Page

PAGES = (
    Page(
        "E404",
        "the same rule twice",
        """
Two rules of one phase fit exactly the same places, whatever they call their captures, in whatever order they
write attributes and the operands of commutative operators. One of them can never do anything.
""",
        """
rule DOC1 add-nothing <kind: exact>
match { y = Add(x, {0.0}) }
rewrite { y = x }

rule DOC2 nothing-added <kind: exact>
match { sum = Add({0.0}, a) }
rewrite { sum = a }
""",
        """
rule DOC1 add-nothing <kind: exact>
match { y = Add(x, {0.0}) }
rewrite { y = x }

rule DOC2 subtract-nothing <kind: exact>
match { y = Sub(x, {0.0}) }
rewrite { y = x }
""",
    ),
    Page(
        "E405",
        "a rule that never gets its turn",
        """
Another rule fits every place where this one does, is always tried first, and takes the node away. It is tried
first when it is in an earlier phase, when `before` says so, or when it is more specific; and, since nodes
are visited from inputs to outputs, when it fits an inner node of this rule's pattern.
""",
        """
rule DOC1 any-double-negation <kind: exact>
match { y = Neg(Neg(x)) }
rewrite { y = x }

rule DOC2 double-negation-before-relu <kind: exact>
match { y = Relu(Neg(Neg(x))) }
rewrite { y = Relu(x) }
""",
        """
rule DOC1 any-double-negation <kind: exact, phase: cleanup>
match { y = Neg(Neg(x)) }
rewrite { y = x }

rule DOC2 double-negation-before-relu <kind: exact>
match { y = Relu(Neg(Neg(x))) }
rewrite { y = Relu(x) }
""",
    ),
    Page(
        "E406",
        "two rules fit the same node, and nothing says which goes first",
        """
In a phase the more specific rule wins: more nodes first, then more attributes, constants, types and conditions.
Where that is equal and some graph fits both, the result would depend on their codes. Say it: `before: CODE` in
the header of one of them.

Rules do not overlap when their exporters, opsets, operators or attributes differ, when plain conditions exclude
each other (`rank(x) == 4` and `rank(x) == 3`, `dtype(x) == float` and `dtype(x) in [int32, int64]`, `c` and
`not c`), or when both only edit and neither reads what the other writes. Where they exclude each other for a reason
that cannot be seen, `before` is the way to say that it has been thought of: it costs nothing.
""",
        """
rule DOC1 relu-of-itself <kind: exact>
match { y = Max(x, Abs(z)) }
rewrite { y = Relu(Abs(z)) }

rule DOC2 negative-part <kind: exact>
match { y = Max(Neg(x), z) }
rewrite { y = Neg(Min(x, Neg(z))) }
""",
        """
rule DOC1 relu-of-itself <kind: exact, before: DOC2>
match { y = Max(x, Abs(z)) }
rewrite { y = Relu(Abs(z)) }

rule DOC2 negative-part <kind: exact>
match { y = Max(Neg(x), z) }
rewrite { y = Neg(Min(x, Neg(z))) }
""",
    ),
    Page(
        "E407",
        "a rule matches its own result",
        """
What the rule makes fits its pattern and its conditions again, so it would fire for ever; the run stops it after a
number of generations and says so. Ending needs something that grows less with every firing: the number of
nodes, or of nodes of one operator. Or the result must not fit any more: an attribute that the pattern tests has
another value, an operand that was no constant is one.
""",
        """
rule DOC1 operands-in-order <kind: exact>
match { y = Add(a, b) }
rewrite { y = Add(b, a) }
""",
        """
rule DOC1 constant-on-the-right <kind: exact>
match { y = ordered Add(const a, b) }
where not is_const(b)
rewrite { y = Add(b, a) }
""",
    ),
    Page(
        "E408",
        "rules undo each other",
        """
What one rule makes fits the next one, and what the last one makes fits the first one again: with all of them selected
the run would go round for ever. It is stopped when a graph comes back, and says so, but leaves the graph wherever it
was then. Along every such circle some count of nodes must fall that no rule on it raises.
""",
        """
rule DOC1 down <kind: exact>
match { y = Transpose<perm=p>(Relu(x)) }
rewrite { y = Relu(Transpose<perm=p>(x)) }

rule DOC2 up <kind: exact>
match { y = Relu(Transpose<perm=p>(x)) }
rewrite { y = Transpose<perm=p>(Relu(x)) }
""",
        """
rule DOC1 down <kind: exact>
match { y = Transpose<perm=p>(Relu(x)) }
rewrite { y = Relu(Transpose<perm=p>(x)) }

rule DOC2 away <kind: exact>
match { y = Relu(Relu(x)) }
rewrite { y = Relu(x) }
""",
    ),
    Page(
        "E409",
        "a rule that can never apply",
        """
Its conditions, attribute tests and types exclude each other, or no version satisfies `versions`. Lines of `where`
must all hold; alternatives are written with `or` in one line.
""",
        """
rule DOC1 relu-of-images <kind: exact>
match { y = Relu(float[N,C,H,W] x) }
where rank(x) == 3 and N == C and H == W
rewrite { y = x }
""",
        """
rule DOC1 relu-of-images <kind: exact>
match { y = Relu(float[N,C,H,W] x) }
where rank(x) == 4 and N == C and H == W
rewrite { y = x }
""",
    ),
    Page(
        "W406",
        "two rules may fit the same node (--pedantic)",
        """
As E406, but they meet only where one rule wants a constant and the other the nodes that make it, which is a
constant only when all of them fold to one.
""",
        """
rule DOC1 from-the-left <kind: lossy>
match { y = Sub(Cast<to=float>(a), const k) }
rewrite { y = a }

rule DOC2 from-the-right <kind: lossy>
match { y = Sub(const k, Cast<to=float>(a)) }
rewrite { y = a }
""",
        """
rule DOC1 from-the-left <kind: lossy, before: DOC2>
match { y = Sub(Cast<to=float>(a), const k) }
rewrite { y = a }

rule DOC2 from-the-right <kind: lossy>
match { y = Sub(const k, Cast<to=float>(a)) }
rewrite { y = a }
""",
    ),
    Page(
        "W407",
        "a rule may match its own result (--pedantic)",
        """
As E407, but whether the conditions hold again, or whether the rest of a model completes the pattern, cannot be seen.
""",
        """
rule DOC1 padded <kind: lossy>
match { [n] y = AveragePool<pads=p>(x) }
where all(p == 1)
rewrite { n.pads = reversed(p) }
""",
        """
rule DOC1 padded <kind: lossy>
match { [n] y = AveragePool<count_include_pad=0>(x) }
rewrite { n.count_include_pad = 1 }
""",
    ),
    Page(
        "W408",
        "rules may undo each other (--pedantic)",
        """
As E408, but one of the steps needs conditions or parts of a model that cannot be seen.
""",
        """
rule DOC1 up <kind: lossy>
match { y = Abs(x) }
where rank(x) > 2
rewrite { y = Relu(Flatten(x)) }

rule DOC2 down <kind: lossy>
match { y = Relu(x) }
where dim(x, 0) == 1
rewrite { y = Abs(Neg(x)) }
""",
        """
rule DOC1 up <kind: lossy>
match { y = Abs(x) }
rewrite { y = Relu(x) }

rule DOC2 down <kind: lossy>
match { y = Neg(x) }
rewrite { y = Abs(x) }
""",
    ),
)
