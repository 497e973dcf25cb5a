"""Pages of E0xx: text that is no rule."""

from __future__ import annotations

from rewriter.language.messages.page import Page
from rewriter.language.syntax.syntax_limits import MAX_NESTING

_RIGHT = """
rule DOC1 no-op <kind: exact>
match { y = Identity(x) }
rewrite { y = x }
"""

_TABLE = """
rule DOC1 no-op <kind: exact>
table {
  code  op        title
  DOC1  Identity  "an Identity"
  DOC2  Dropout   "a Dropout"
}
match { y = @op(x) }
rewrite { y = x }
test "@op goes" ~~~
  <ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = @op(x) }
~~~ becomes ~~~
  <ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Identity(x) }
~~~
"""

PAGES = (
    Page(
        "E001",
        "the text is not what the grammar expects here",
        """
The message says what is possible at this place and what is written there. Every rule of a file is read by itself,
so one error does not hide those of the next rule.
""",
        """
rule DOC1 no-op <kind: exact>
match { y = Identity(x) }
rewrite { y == x }
""",
        _RIGHT,
    ),
    Page(
        "E002",
        "something is not closed",
        """
A bracket, a text in double quotes or a `~~~` text has no end. A text in quotes ends on the line where it
begins.
""",
        """
rule DOC1 no-op <kind: exact, issue: "https://example.com>
match { y = Identity(x) }
rewrite { y = x }
""",
        """
rule DOC1 no-op <kind: exact, issue: "https://example.com">
match { y = Identity(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E003",
        "too long or too deep",
        """
A rule file may come from a stranger, so files, rules, texts and nesting are bounded. A long expression is
easier to read with names for its parts (`let`).
""",
        f"""
rule DOC1 no-op <kind: exact>
match {{ y = Identity(x) }}
where {"(" * MAX_NESTING}rank(x){")" * MAX_NESTING} == 2
rewrite {{ y = x }}
""",
        """
rule DOC1 no-op <kind: exact>
match { y = Identity(x) }
where (rank(x)) == 2
rewrite { y = x }
""",
    ),
    Page(
        "E004",
        "a rule looks for nothing",
        """
Every rule has a `match` block with at least one line. `match graph { }` matches once a model, for what
belongs to the model as a whole.
""",
        """
rule DOC1 no-op <kind: exact>
rewrite { y = x }
""",
        _RIGHT,
    ),
    Page(
        "E005",
        "a rule has two `match` blocks",
        """
One block may hold several connected nodes. Two patterns are two rules.
""",
        """
rule DOC1 no-op <kind: exact>
match { y = Identity(x) }
match { y = Dropout(x) }
rewrite { y = x }
""",
        """
rule DOC1 no-op <kind: exact>
match { y = (Identity | Dropout)(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E006",
        "a rule does nothing",
        """
Every rule has a `rewrite` block, or several for disjoint ranges of opsets.
""",
        """
rule DOC1 no-op <kind: exact>
match { y = Identity(x) }
""",
        _RIGHT,
    ),
    Page(
        "E007",
        "the parts of a rule are out of order",
        """
First the doc comment, the rule's code, name and header; then match, where, let, private and param; then
rewrite; then the tests.
""",
        """
rule DOC1 no-op <kind: exact>
rewrite { y = x }
match { y = Identity(x) }
""",
        _RIGHT,
    ),
    Page(
        "E008",
        "this word cannot be a name",
        """
Element types and the words of the language are not available as names of tensors, nodes, parameters and
values.
""",
        """
rule DOC1 no-op <kind: exact>
match { model = Identity(x) }
rewrite { model = x }
""",
        _RIGHT,
    ),
    Page(
        "E010",
        "a number or an escape sequence that is none",
        """
Whole numbers fit into 64 bits, as ONNX has them. In texts the escape sequences are those of JSON: \\n, \\t,
\\r, \\", \\\\ and \\uXXXX.
""",
        """
rule DOC1 power <kind: exact>
match { y = Pow(x, {99999999999999999999}) }
rewrite { y = x }
""",
        """
rule DOC1 power <kind: exact>
match { y = Pow(x, {1}) }
rewrite { y = x }
""",
    ),
    Page(
        "E011",
        "values in parentheses that do not belong there",
        """
Only `kind` takes values: approx(rtol=1e-4, atol=1e-6).
""",
        """
rule DOC1 no-op <kind: approx(tol=1e-4)>
match { y = Identity(x) }
rewrite { y = x }
""",
        """
rule DOC1 no-op <kind: approx(rtol=1e-4)>
match { y = Identity(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E012",
        "a form that the language does not have",
        """
The grammar is a little looser than the language. `...` is written once and last in a list; `inside` names an
operator and its subgraph; a test says either `becomes` or `unchanged`; `y = x` replaces one output by one
tensor.
""",
        """
rule DOC1 conv <kind: exact>
match { y = Conv(..., x) }
rewrite { y = x }
""",
        """
rule DOC1 conv <kind: exact>
match { y = Conv(x, ...) }
rewrite { y = x }
""",
    ),
    Page(
        "E013",
        "a control character",
        """
Characters that steer a terminal, or that show text in another order than it is written, have no place in a
rule file.
""",
        """
rule DOC1 no-op <kind: exact>  # \x1b[2J
match { y = Identity(x) }
rewrite { y = x }
""",
        _RIGHT,
    ),
    Page(
        "E014",
        "a table that does not fit together",
        """
The first line of a table names the columns, `code` first. Each row has a cell in every column (`_` where it has
nothing), and its title in the column `title`, in the first line of a `///` comment above it, or by a column that the
first line of the rule's doc comment names.
""",
        _TABLE.replace('  "a Dropout"', ""),
        _TABLE,
    ),
    Page(
        "E015",
        "a column that the table does not have",
        """
`@name` stands for what a row has in the column `name`. In a rule without a table it is only an operator that is
a parameter.
""",
        _TABLE.replace("y = @op", "y = @operator"),
        _TABLE,
    ),
    Page(
        "E016",
        "a column that nothing uses",
        """
What is in a column, and nowhere in the rule, decides nothing.
""",
        _TABLE.replace("  title", "  from  title").replace('  "a', '  7     "a'),
        _TABLE,
    ),
    Page(
        "E017",
        "a row without a test of its own",
        """
Each row of a table is a rule, and has at least one test: one that says its code, or one for all rows whose models
name columns. A test can only be for a row that is there.
""",
        _TABLE.replace('test "@op goes', 'test DOC1 "@op goes'),
        _TABLE,
    ),
    Page(
        "E018",
        "a define that cannot be",
        """
`define name(a, b) = expression` gives a condition or a value a name. It is written out where it is called, so it
cannot call itself, and its name is neither that of a function of the language nor that of another define of the file.
""",
        """
define single(x) = size(x) == 1 and not single(x)

rule DOC1 defines <kind: exact>
match { y = Identity(x) }
rewrite { y = x }
""",
        """
define single(x) = size(x) == 1

rule DOC1 defines <kind: exact>
match { y = Identity(x) }
where single(x)
rewrite { y = x }
""",
    ),
    Page(
        "E019",
        "a choice that cannot be made",
        """
Some forms stand for several patterns. Where the node of `maybe Cast(x)` is not there, its first operand stands for
it; a chain `Mul*(a, b, c)` is of an operator whose operands can be grouped as one likes; `<axes~a>` is an attribute
in some opsets and an operand in others. At least one of the patterns must be left by the conditions.
""",
        """
rule DOC1 choices <kind: approx(rtol=1e-6)>
match { y = Sub*(x, {1.0}, {2.0}) }
rewrite { y = Sub(x, {3.0}) }
""",
        """
rule DOC1 choices <kind: approx(rtol=1e-6)>
match { y = Add*(x, {1.0}, {2.0}) }
rewrite { y = Add(x, {3.0}) }
""",
    ),
)
