"""Pages of E1xx: operators, attributes and operand counts against the ONNX schemas."""

from __future__ import annotations

from rewriter.language.messages.page import Page

PAGES = (
    Page(
        "E101",
        "ONNX has no such operator",
        """
The name is in none of the opsets that the installed onnx knows. It may be misspelled, belong to another
domain (then the message says which), or be an operator of a tool, which is written with its domain:
`com.microsoft.FusedConv`. Domains that ONNX does not define are never checked.

Rules of kind `repair` may also match the experimental operators that ONNX 1.0 to 1.4 had and later dropped
(ImageScaler, Crop, Affine, Scale, ...), and operators of TensorFlow that a converter left over, since such
exports exist.
""",
        """
rule DOC1 swish <kind: exact>
match { y = Mul(x, Sigmod(x)) }
rewrite { y = com.acme.Swish(x) }
""",
        """
rule DOC1 swish <kind: exact>
match { y = Mul(x, Sigmoid(x)) }
rewrite { y = com.acme.Swish(x) }
""",
    ),
    Page(
        "W101",
        "an operator that looks misspelled",
        """
Operators of other domains have no schemas, so any name is accepted. This one is a letter or two away from a domain
of ONNX or of ONNX Runtime (`com.microsoft`), or from an operator of ONNX Runtime.
""",
        """
rule DOC1 gelu <kind: exact>
match { y = com.microsft.Gelu(x) }
rewrite { y = com.acme.Gelu(x) }
""",
        """
rule DOC1 gelu <kind: exact>
match { y = com.microsoft.Gelu(x) }
rewrite { y = com.acme.Gelu(x) }
""",
    ),
    Page(
        "E102",
        "the operator never had such an attribute",
        """
No version of the operator has an attribute of this name. The message lists those that exist, or says that the
name is one of the operator's inputs. The same holds for subgraphs (`match inside Loop.body`).
""",
        """
rule DOC1 count-padding <kind: repair, evidence: refused>
match { [pool] y = AveragePool(x) }
rewrite { pool.include_pad = 1 }
""",
        """
rule DOC1 count-padding <kind: repair, evidence: refused>
match { [pool] y = AveragePool(x) }
rewrite { pool.count_include_pad = 1 }
""",
    ),
    Page(
        "E103",
        "the attribute does not exist in a part of the rule's opsets",
        """
A rule holds for every opset that it declares (`opset: 7..` when it says nothing; an open beginning means 7).
The attribute was added, was removed, or became an input somewhere inside that range. Limit the rule, write
the other form, or write one rewrite block for each form.

In a pattern two things are no error. Testing an attribute for a value in opsets before it was introduced with
a default: there it has that default. And anything that some version had, in rules of kind `repair`: the
models that need repair are those that break the rules, such as `BatchNormalization<spatial=0>` in opset 9 or
`Unsqueeze<axes=[0]>` in opset 13. What a rewrite writes must always exist in every opset of its block.
""",
        """
rule DOC1 unsqueeze-of-relu <kind: exact>
match { u = Unsqueeze<axes=a>(x)   y = Relu(u) }
rewrite { r = Relu(x)   y = Unsqueeze<axes=a>(r) }
""",
        """
rule DOC1 unsqueeze-of-relu <kind: exact, opset: 7..12>
match { u = Unsqueeze<axes=a>(x)   y = Relu(u) }
rewrite { r = Relu(x)   y = Unsqueeze<axes=a>(r) }
""",
    ),
    Page(
        "E104",
        "the operator never has so many operands",
        """
A pattern matches exactly the operands that it lists: `b?` may be absent, `...` allows more, `*parts` stands
for any number. Here no version of the operator has a form that fits. The same is said of too many outputs,
and of an edited input that the operator does not have.
""",
        """
rule DOC1 conv <kind: exact>
match { [conv] y = Conv(x) }
where rank(x) == 3
rewrite { y = Conv<..conv>(x, x) }
""",
        """
rule DOC1 conv <kind: exact>
match { [conv] y = Conv(x, w) }
where rank(x) == 3
rewrite { y = Conv<..conv>(x, w) }
""",
    ),
    Page(
        "E105",
        "the operator has other operands in a part of the rule's opsets",
        """
The number of operands fits some versions of the operator and not others, usually since attributes became
inputs. End the operands with `...`, limit the rule, or write a rewrite block for each form. In patterns of
rules of kind `repair` every number that some version has is accepted.
""",
        """
rule DOC1 clip <kind: exact>
match { y = Clip(x, lo, hi) }
rewrite { t = Max(x, lo)   y = Min(t, hi) }
""",
        """
rule DOC1 clip <kind: exact, opset: 11..>
match { y = Clip(x, lo, hi) }
rewrite { t = Max(x, lo)   y = Min(t, hi) }
""",
    ),
    Page(
        "E106",
        "the attribute has another type",
        """
Attributes have the type that the schema gives them: an integer, a number, a text, lists of these, a tensor or
a subgraph. Whole numbers may be written for numbers, `true` and `false` for 1 and 0, and element types (`float16`)
for the integers that stand for them. Subgraphs can only be tested for presence: `If<then_branch>(c)`.
""",
        """
rule DOC1 softmax <kind: exact>
match { y = Softmax<axis="last">(x) }
rewrite { y = Softmax<axis=1>(x) }
""",
        """
rule DOC1 softmax <kind: exact>
match { y = Softmax<axis=-1>(x) }
rewrite { y = Softmax<axis=1>(x) }
""",
    ),
    Page(
        "E107",
        "a required attribute is missing",
        """
The schema gives no default for this attribute, so a new node has to say it: written, or copied from a matched
node of the same operator with `..label`.
""",
        """
rule DOC1 cast <kind: lossy>
match { y = Identity(x) }
rewrite { y = Cast(x) }
""",
        """
rule DOC1 cast <kind: lossy>
match { y = Identity(x) }
rewrite { y = Cast<to=float16>(x) }
""",
    ),
    Page(
        "E108",
        "rewrite blocks overlap",
        """
With several `rewrite opset ...` blocks, exactly one holds for each opset of the rule.
""",
        """
rule DOC1 blocks <kind: exact>
match { y = Identity(x) }
rewrite opset ..13 { y = Squeeze(x) }
rewrite opset 13.. { y = Flatten(x) }
""",
        """
rule DOC1 blocks <kind: exact>
match { y = Identity(x) }
rewrite opset ..12 { y = Unsqueeze<axes=[0]>(x) }
rewrite opset 13.. { y = Unsqueeze(x, int64{[0]}) }
""",
    ),
    Page(
        "E109",
        "rewrite blocks leave a gap or lie outside of the range",
        """
With several `rewrite opset ...` blocks, exactly one holds for each opset that the rule declares and none for
others.
""",
        """
rule DOC1 blocks <kind: exact, opset: 7..>
match { y = Identity(x) }
rewrite opset ..11 { y = Unsqueeze<axes=[0]>(x) }
rewrite opset 13.. { y = Unsqueeze(x, int64{[0]}) }
""",
        """
rule DOC1 blocks <kind: exact, opset: 13..>
match { y = Identity(x) }
rewrite { y = Unsqueeze(x, int64{[0]}) }
""",
    ),
    Page(
        "E110",
        "the operator does not exist in these opsets",
        """
A rewrite may only make operators that every opset of its block has and that are not deprecated there. Where a
pattern's operators exist in a part of the range only, the rule is checked for that part; where no opset of
the range has them all, the rule can never apply.
""",
        """
rule DOC1 gelu <kind: exact>
match { y = com.acme.Gelu(x) }
rewrite { y = Gelu(x) }
""",
        """
rule DOC1 gelu <kind: exact, opset: 20..>
match { y = com.acme.Gelu(x) }
rewrite { y = Gelu(x) }
""",
    ),
)
