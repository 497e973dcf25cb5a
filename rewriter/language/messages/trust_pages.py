"""Pages of E5xx and W5xx: what running a rule shows (`rewriter verify`), and evidence without a twin (`rewriter lint`)."""

from __future__ import annotations

from rewriter.language.messages.page import Page

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
rule DOC1 slope <kind: repair, evidence: guess>
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.01 }
""",
        """
rule DOC1 slope <kind: repair, evidence: guess, unverified: "the slope stands in no file; 0.01 is the framework's default">
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.01 }
""",
    ),
    Page(
        "E503",
        "a model that the rule says is refused runs",
        """
The rule says `evidence: refused`: wherever its pattern and its conditions hold, the model is invalid or ONNX Runtime
refuses to load or run it. `rewriter verify` has found a model on which the rule fires, that the checker passes and
that ONNX Runtime runs; it may be one of the rule's own tests. Such a model may be right, and the rule would change
it. Add the condition that only refused models meet, or name other evidence. A rule of `refused(onnxruntime)` asks the
runtime before it fires, so only a model that runs although one of its nodes has no kernel refutes it.
""",
        """
rule DOC1 integer-top-k <kind: repair, evidence: refused, opset: 7..11>
match { [n] y, ... = TopK(x, ...) }
where dtype(x) == int64
rewrite {
  n.inputs[0] = Cast<to=double>(x)
  y = Cast<to=int64>(y)
}
""",
        """
rule DOC1 integer-top-k <kind: repair, evidence: refused, opset: 7..10>
match { [n] y, ... = TopK(x, ...) }
where dtype(x) == int64
rewrite {
  n.inputs[0] = Cast<to=double>(x)
  y = Cast<to=int64>(y)
}
""",
    ),
    Page(
        "E505",
        "a repair without the twin that its evidence needs",
        """
With `evidence: source` the framework's own file makes a repair certain, with `evidence: exporter` the marks that an
exporter leaves. Whether correct programs leave the same marks, only such programs can show. So `rewriter lint` wants at
least one test of the kind `twin`: what the real exporter makes of correct code, as near to the pattern as possible, on
which the rule must not fire. Write the code, and the exporter's version, in a comment above the test. Where no twin
can be told from the defect, the model does not tell, and the evidence is a guess.
""",
        """
rule DOC1 lrn-bias <exporter: "mxnet", kind: repair, evidence: source, needs: source>
match { [n] y = LRN<bias=1.0>(x) }
where source(n, "knorm", 2.0) == 2.0
rewrite { n.bias = 2.0 }
""",
        """
rule DOC1 lrn-bias <exporter: "mxnet", kind: repair, evidence: source, needs: source>
match { [n] y = LRN<bias=1.0>(x) }
where source(n, "knorm", 2.0) == 2.0
rewrite { n.bias = 2.0 }

# MXNet 1.5.1: mx.sym.LRN(x, nsize=3, knorm=1, name="lrn")
test "a knorm of 1" source ~~~
  {"nodes": [{"op": "null", "name": "x", "inputs": []},
             {"op": "LRN", "name": "lrn", "attrs": {"knorm": "1", "nsize": "3"}, "inputs": [[0, 0, 0]]}],
   "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 10501]}}
~~~ twin ~~~
  <ir_version: 3, opset_import: ["": 8]>
  mxnet_converted_model (float[1,3,2,2] x) => (float[1,3,2,2] lrn) {
    [lrn] lrn = LRN<alpha=0.0001, beta=0.75, bias=1.0, size=3>(x)
  }
~~~
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
