"""Pages of E201 to E204, E214 to E216 and W20x: names, and the shape of a pattern."""

from __future__ import annotations

from rewriter.language.messages.page import Page

PAGES = (
    Page(
        "E201",
        "nothing binds this name",
        """
Names come from the pattern (tensors, labels, attribute values, dimensions), from `param`, from `let` lines
above, and inside a rewrite from the nodes made so far. A name in an attribute test, `<axis=a>`, binds the
value when nothing bound `a` before.
""",
        """
rule DOC1 names <kind: exact>
match { y = Transpose<perm=p>(x) }
where perm == [0, 1]
rewrite { y = x }
""",
        """
rule DOC1 names <kind: exact>
match { y = Transpose<perm=p>(x) }
where p == [0, 1]
rewrite { y = x }
""",
    ),
    Page(
        "E202",
        "the name is taken",
        """
A rule has one name for one thing: a label cannot be called like a tensor, a `let` not like a capture, and two
nodes of a pattern cannot make the same tensor. The same tensor name twice is no clash, it means the same
tensor.
""",
        """
rule DOC1 names <kind: exact>
match { y = Mul(x, const k) }
let k = k * 2
rewrite { y = Mul(x, {k}) }
""",
        """
rule DOC1 names <kind: exact>
match { y = Mul(x, const k) }
let twice = k * 2
rewrite { y = Mul(x, {twice}) }
""",
    ),
    Page(
        "E203",
        "the alternatives disagree",
        """
In `(A | B)<attr=a>(x)` both operators bind the same names, so an attribute that is captured must have the
same type in both. An operator is listed among the alternatives once.
""",
        """
rule DOC1 alternatives <kind: exact>
match { y = (Dropout | Identity | Dropout)(x) }
rewrite { y = x }
""",
        """
rule DOC1 alternatives <kind: exact>
match { y = (Dropout | Identity)(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E204",
        "the pattern does not hang together",
        """
A pattern is one connected piece of a graph: each line shares a tensor with another one. Two separate pieces
would have to be tried in all combinations; write two rules. Nor can the nodes feed each other in a circle,
or a node itself, since no ONNX graph does.
""",
        """
rule DOC1 pieces <kind: exact>
match { y = Relu(x)   z = Relu(w) }
rewrite { y = x }
""",
        """
rule DOC1 pieces <kind: exact>
match { y = Relu(x)   z = Relu(y) }
rewrite { z = y }
""",
    ),
    Page(
        "E214",
        "`private` names a tensor that the pattern does not make",
        """
`private h` demands that nothing outside of the match reads `h`. That makes sense for tensors between the
matched nodes; to limit the readers of an operand, ask `uses(x)`.
""",
        """
rule DOC1 private <kind: exact>
match { h = Relu(x)   y = Relu(h) }
private x
rewrite { y = Relu(x) }
""",
        """
rule DOC1 private <kind: exact>
match { h = Relu(x)   y = Relu(h) }
private h
rewrite { y = Relu(x) }
""",
    ),
    Page(
        "E215",
        "an operand list that cannot be matched",
        """
`*name` stands for a run of operands, up to the next one of the list. Two of them side by side, one beside `...`,
or one before an operand that may be missing could be divided in many ways. An operand that a matched node makes is
always there and cannot be optional. `ordered` is for operators whose operands are otherwise tried in every order.
""",
        """
rule DOC1 operands <kind: exact>
match { y = Concat<axis=0>(*a, *b) }
rewrite { y = Concat<axis=0>(*b, *a) }
""",
        """
rule DOC1 operands <kind: exact>
match { y = Concat<axis=0>(*a, Relu(x), *b) }
rewrite { y = Concat<axis=0>(*b, x, *a) }
""",
    ),
    Page(
        "E216",
        "too big",
        """
A rule file may come from a stranger, so the sizes of patterns, expressions and written constants are bounded.
""",
        """
rule DOC1 sizes <kind: lossy>
match { y = Relu(x) }
rewrite { y = Mul(x, float[100000, 100000]{0.0}) }
""",
        """
rule DOC1 sizes <kind: lossy>
match { y = Relu(x) }
rewrite { y = Mul(x, float[1, 1]{0.0}) }
""",
    ),
    Page(
        "E217",
        "doubt about a shape where a broadcast goes",
        """
`maybe(...)` holds where the answer is unknown. A rewrite that takes a broadcasting node away, or puts another operator
in its place, gives a result of another shape wherever the operands' shapes differ; so the shapes have to be known.
""",
        """
rule DOC1 adding-zeros <kind: exact>
match { y = Add(x, const c) }
where all(c == 0) and maybe(shape(c) == shape(x))
rewrite { y = x }
""",
        """
rule DOC1 adding-zeros <kind: exact>
match { y = Add(x, const c) }
where all(c == 0) and shape(c) == shape(x)
rewrite { y = x }
""",
    ),
    Page(
        "W201",
        "a name that is never used",
        """
A label, a captured attribute value, a `let` or a new tensor exists to be used; one that is not is often a
misspelling. A leading underscore says that it is meant. Operands and outputs of a pattern need names anyway
and may stay unused.
""",
        """
rule DOC1 unused <kind: exact, opset: ..11>
match { y = Dropout<ratio=r>(x) }
rewrite { y = x }
""",
        """
rule DOC1 unused <kind: exact>
match { y = Dropout(x) }
rewrite { y = x }
""",
    ),
    Page(
        "W202",
        "a parameter that is never used",
        """
Setting it would change nothing.
""",
        """
rule DOC1 unused <kind: exact>
param rate: float = 0.5
match { y = Identity(x) }
rewrite { y = x }
""",
        """
rule DOC1 unused <kind: exact>
match { y = Identity(x) }
rewrite { y = x }
""",
    ),
    Page(
        "W203",
        "the framework's file and the header disagree",
        """
`source(...)` is unknown for every model that comes without the framework's own file, and a rule whose
condition is unknown does not fire. Say so with `needs: source`, or let it fire there with `maybe(...)`.
`needs: source` without any such question is without effect.
""",
        """
rule DOC1 fix-gamma <kind: repair, evidence: refused>
match { [bn] y = BatchNormalization(x, const gamma, ...) }
where source(bn, "fix_gamma", true)
rewrite { bn.inputs[1] = {ones_like(gamma)} }
""",
        """
rule DOC1 fix-gamma <kind: repair, evidence: source, needs: source>
match { [bn] y = BatchNormalization(x, const gamma, ...) }
where source(bn, "fix_gamma", true)
rewrite { bn.inputs[1] = {ones_like(gamma)} }
""",
    ),
)
