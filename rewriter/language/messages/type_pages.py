"""Pages of E205 to E209: expressions."""

from __future__ import annotations

from rewriter.language.messages.page import Page

PAGES = (
    Page(
        "E205",
        "a run-time value where a constant is needed",
        """
Rules run before the model does, so the elements of a tensor are known only where it is a constant. Write
`const w` in the pattern to match constants only, and `w` is their value. Of every tensor there are facts:
rank, shape, dim, size, dtype, and for shape computations value.
""",
        """
rule DOC1 times-one <kind: exact>
match { y = Mul(x, one) }
where all(one == 1) and rank(one) == 0
rewrite { y = x }
""",
        """
rule DOC1 times-one <kind: exact>
match { y = Mul(x, const one) }
where all(one == 1) and rank(one) == 0
rewrite { y = x }
""",
    ),
    Page(
        "E206",
        "the types do not fit",
        """
A condition is true or false; comparing an array or a list with a number gives one truth value for each
element, so it needs `all(...)` or `any(...)`. Numbers, texts, lists, element types, tensors and nodes do not
mix: tensors are written where operands are, `{...}` makes a constant of a value, and element types are written
without quotes.
""",
        """
rule DOC1 pads <kind: exact>
match { y = MaxPool<pads=p, kernel_shape=[1, 1]>(x) }
where p == 0
rewrite { y = x }
""",
        """
rule DOC1 pads <kind: exact>
match { y = MaxPool<pads=p, kernel_shape=[1, 1]>(x) }
where all(p == 0)
rewrite { y = x }
""",
    ),
    Page(
        "E207",
        "there is no such function",
        """
The functions are a closed table: that is what makes a rule file data. There are no others and no methods.
Operators are not functions; new nodes are made by lines of `rewrite`.
""",
        """
rule DOC1 functions <kind: exact>
match { y = Flatten<axis=1>(x) }
where ndim(x) == 2
rewrite { y = x }
""",
        """
rule DOC1 functions <kind: exact>
match { y = Flatten<axis=1>(x) }
where rank(x) == 2
rewrite { y = x }
""",
    ),
    Page(
        "E208",
        "too few or too many arguments",
        """
The note shows what the function takes: `?` marks arguments that may be left out, `...` those that may be
repeated.
""",
        """
rule DOC1 functions <kind: exact>
match { y = Flatten<axis=1>(x) }
where dim(x) == 1
rewrite { y = x }
""",
        """
rule DOC1 functions <kind: exact>
match { y = Flatten<axis=1>(x) }
where dim(x, 0) == 1 and rank(x) == 2
rewrite { y = x }
""",
    ),
    Page(
        "E209",
        "there is no such field",
        """
Nodes have their attributes as fields, besides inputs, outputs and op; tensors have shape, dtype and name; the
model has ir_version, opset, producer_name and a few more. Everything else is asked with functions.
""",
        """
rule DOC1 fields <kind: exact>
match { y = Flatten<axis=1>(x) }
where x.rank == 2
rewrite { y = x }
""",
        """
rule DOC1 fields <kind: exact>
match { y = Flatten<axis=1>(x) }
where rank(x) == 2
rewrite { y = x }
""",
    ),
)
