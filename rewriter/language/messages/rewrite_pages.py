"""Pages of E210 to E213 and W3xx: what a rewrite may change, parameters, forgotten attributes."""

from __future__ import annotations

from rewriter.language.messages.page import Page

PAGES = (
    Page(
        "E210",
        "this cannot be changed",
        """
A rewrite changes in place what was matched: attributes, inputs, the operator and the texts of a labelled node, type
and shape of a tensor, and, after `match graph`, the model's ir_version, opset and texts. Nodes and attributes can
be deleted; tensors vanish by themselves when nothing reads them. A rule on the interface may make nodes after
inputs and before outputs, `x = Cast<to=float>(x)`, and no others. `mend` takes the faults of the model as a whole, which
are found and not set: `mend model.unsorted_nodes`. `inline` needs a subgraph, or a call of a
local function.
""",
        """
rule DOC1 remove <kind: exact>
match { y = Identity(x) }
rewrite { y = x   del x }
""",
        """
rule DOC1 remove <kind: exact>
match { y = Identity(x) }
rewrite { y = x }
""",
    ),
    Page(
        "E211",
        "a tensor that this rule cannot redefine",
        """
`y = ...` with the name of a matched output gives all its uses another tensor; with a new name it makes a new
tensor. What the pattern only reads belongs to others: to change what one node reads, edit that node's input.
A tensor is defined once in a block.
""",
        """
rule DOC1 flatten-first <kind: repair, evidence: refused>
match { [gemm] y = Gemm(x, w, ...) }
rewrite { x = Flatten(x) }
""",
        """
rule DOC1 flatten-first <kind: repair, evidence: refused>
match { [gemm] y = Gemm(x, w, ...) }
rewrite { flat = Flatten(x)   gemm.inputs[0] = flat }
""",
    ),
    Page(
        "E212",
        "only rules of kind `interface` may change this",
        """
Callers rely on the names, types and shapes of a model's inputs and outputs, and on which there are. A rule that
changes them says so in its kind, and then runs only when it is selected.
""",
        """
rule DOC1 any-batch <kind: exact>
match graph { input tensor[1, ...] x }
rewrite { x.shape[0] = "N" }
""",
        """
rule DOC1 any-batch <kind: interface>
match graph { input tensor[1, ...] x }
rewrite { x.shape[0] = "N" }
""",
    ),
    Page(
        "E213",
        "a parameter that does not fit",
        """
Parameters have one of the types op, dim, int, float, bool, string, dtype, ints; the default, and what a test
sets, is of that type. `@name(x)` matches the operator that a parameter of type `op` names: "Relu" or
"com.acme::Foo".
""",
        """
rule DOC1 drop <kind: lossy>
param which: string = "com.acme::Foo"
match { y = @which(x) }
rewrite { y = x }
""",
        """
rule DOC1 drop <kind: lossy>
param which: op = "com.acme::Foo"
match { y = @which(x) }
rewrite { y = x }
""",
    ),
    Page(
        "W301",
        "the new node forgets attributes of the matched one",
        """
The rewrite makes the same operator again, with neither a copy of the attributes (`..label`) nor a test of them
in the pattern. Every attribute that the matched node has would silently become the default: the most common
error of published rewrites.
""",
        """
rule DOC1 scaled-conv <kind: lossy>
match { y = Conv(x, const w) }
rewrite { y = Conv(x, {w * 2}) }
""",
        """
rule DOC1 scaled-conv <kind: lossy>
match { [conv] y = Conv(x, const w) }
rewrite { y = Conv<..conv>(x, {w * 2}) }
""",
    ),
    Page(
        "E218",
        "a local function that cannot be made",
        """
`outline y = acme.Swish(x)` moves the nodes that make `y` of `x` into a function of the model, and calls it. The
function is in a domain of one's own. Whatever its nodes read is an operand of the call, but for constants, which go
along with them, and so do attributes.
""",
        """
rule DOC1 swish <kind: exact>
match { y = Mul(x, Sigmoid(x)) }
rewrite { outline y = Swish(x) }
""",
        """
rule DOC1 swish <kind: exact>
match { y = Mul(x, Sigmoid(x)) }
rewrite { outline y = acme.Swish(x) }
""",
    ),
    Page(
        "W302",
        "a test that can never hold in a part of the opsets",
        """
Before an attribute was introduced, the operator behaved as its default says. A test for another value never
holds there, so the rule claims opsets in which it cannot apply.
""",
        """
rule DOC1 ceil-mode <kind: lossy, opset: 7..>
match { [pool] y = AveragePool<ceil_mode=1>(x) }
rewrite { pool.auto_pad = "NOTSET" }
""",
        """
rule DOC1 ceil-mode <kind: lossy, opset: 10..>
match { [pool] y = AveragePool<ceil_mode=1>(x) }
rewrite { pool.auto_pad = "NOTSET" }
""",
    ),
    Page(
        "W303",
        "copied attributes that the new operator does not have",
        """
`..label` copies every attribute that the matched node has. Where the new node is another operator, what it
does not know must be absent, or the firing fails.
""",
        """
rule DOC1 gemm <kind: lossy, opset: 11..>
match { [gemm] y = Gemm(x, w) }
rewrite { y = MatMul<..gemm>(x, w) }
""",
        """
rule DOC1 gemm <kind: exact, opset: 11..>
match { y = Gemm<transA=0, transB=0, alpha=1.0>(x, w) }
rewrite { y = MatMul(x, w) }
""",
    ),
)
