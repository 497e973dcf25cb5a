"""Places where a rule almost fires, each with the true reason why not: what the tests of explanations are made of."""

from __future__ import annotations

from dataclasses import dataclass

RULE = "/// Prepared.\nrule NEAR001 near-miss <kind: lossy, opset: 13..>\n"


@dataclass(frozen=True)
class Near:
    """`rule` is what follows the header; `asks` is the text of the rule's line that must be blamed."""

    name: str
    rule: str
    model: str
    kind: str
    asks: str
    found: str
    unknown: bool = False
    error: bool = False


_KEEP = "rewrite { y = x }"
_RELU = f"match {{ h = Relu(x)\n y = Sigmoid(h) }}\n{_KEEP}"
_WHERE = "match { [n] y = Relu(x) }\nwhere "
_POOL = "g (float[1,2,8,8] x) => (y) { y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }"


def _where(condition: str) -> str:
    return f"{_WHERE}{condition}\n{_KEEP}"


def _relu(shape: str = "2,3,4", dtype: str = "float") -> str:
    return f"g ({dtype}[{shape}] x) => (y) {{ y = Relu(x) }}"


STRUCTURE = [
    Near("made by another operator", _RELU, "g (float[2] x) => (y) { h = Tanh(x) y = Sigmoid(h) }", "made by", "y = Sigmoid",
         "'h', made by Tanh"),
    Near("an input instead of a node", _RELU, "g (float[2] x) => (y) { y = Sigmoid(x) }", "made by", "y = Sigmoid",
         "'x', an input of the graph"),
    Near("an initializer instead of a node", _RELU, "g () => (y) <float[1] w = {1}> { y = Sigmoid(w) }", "made by",
         "y = Sigmoid", "'w', an initializer"),
    Near("two steps down", f"match {{ a = Relu(x)\n b = Tanh(a)\n y = Sigmoid(b) }}\n{_KEEP}",
         "g (float[2] x) => (y) { a = Abs(x) b = Tanh(a) y = Sigmoid(b) }", "made by", "b = Tanh", "Abs"),
    Near("another output of the right node",
         f"match {{ a, b = TopK<axis=0>(x, _)\n y = Sigmoid(a) }}\n{_KEEP}",
         "g (float[2] x) => (a, y) <int64[1] k = {1}> { a, b = TopK<axis=0>(x, k) c = Cast<to=1>(b) y = Sigmoid(c) }",
         "made by", "y = Sigmoid", "Cast"),
    Near("output of the wrong number",
         f"match {{ m, v = com.acme.Split2(x)\n y = Sigmoid(v) }}\n{_KEEP}",
         'CUSTOM g (float[2] x) => (y, v) { m, v = com.acme.Split2(x) y = Sigmoid(m) }', "made by", "m, v =",
         "'m', output 0 of com.acme.Split2"),
    Near("too many operands", f"match {{ y = Concat<axis=0>(x, _) }}\n{_KEEP}",
         "g (float[2] x) => (y) { y = Concat<axis=0>(x, x, x) }", "operands", "y = Concat", "has 3"),
    Near("too few operands", f"match {{ y = Gemm(x, w, c) }}\n{_KEEP}", "g (float[2,2] x, float[2,2] w) => (y) { y = Gemm(x, w) }",
         "operands", "y = Gemm", "has 2"),
    Near("an operand left out", f"match {{ y = Clip(x, low, high) }}\n{_KEEP}",
         'g (float[2] x, float m) => (y) { y = Clip(x, "", m) }', "operand", "y = Clip", "left out"),
    Near("anything, where nothing is", f"match {{ y = Clip(x, _, high) }}\n{_KEEP}",
         'g (float[2] x, float m) => (y) { y = Clip(x, "", m) }', "operand", "y = Clip", "left out; `b?` would be"),
    Near("not a constant", f"match {{ y = Mul(x, const w) }}\n{_KEEP}", "g (float[2] x, float[2] w) => (y) { y = Mul(x, w) }",
         "constant", "const w", "'w', an input of the graph"),
    Near("made at run time", f"match {{ y = Sub(x, const w) }}\n{_KEEP}",
         "g (float[2] x) => (y) { w = Relu(x) y = Sub(x, w) }", "constant", "const w", "made by Relu"),
    Near("a constant of another value", f"match {{ y = Sub(x, {{1.0}}) }}\n{_KEEP}",
         "g (float[2] x) => (y) <float w = {2}> { y = Sub(x, w) }", "value", "{1.0}", "'w' is 2.0"),
    Near("a constant of another type", f"match {{ y = Sub(x, float{{1}}) }}\n{_KEEP}",
         "g (double[2] x) => (y) <double w = {1}> { y = Sub(x, w) }", "type", "float{1}", "'w' is double"),
    Near("a list of another length", f"match {{ y = Reshape(x, {{[0, -1]}}) }}\n{_KEEP}",
         "g (float[2,3,4] x) => (y) <int64[3] s = {0, 3, 4}> { y = Reshape(x, s) }", "value", "{[0, -1]}", "[0, 3, 4]"),
    Near("a constant that depends on an attribute",
         f"match {{ [l] h = LeakyRelu<alpha=a>(x)\n y = Sub(h, {{a}}) }}\n{_KEEP}",
         "g (float[2] x) => (y) <float w = {2}> { h = LeakyRelu<alpha=0.5>(x) y = Sub(h, w) }", "value", "{a}",
         "'w' is 2.0"),
    Near("not the same tensor", f"match {{ y = Sub(x, x) }}\n{_KEEP}",
         "g (float[2] x, float[2] z) => (y) { y = Sub(x, z) }", "same", "y = Sub", "'z', an input"),
    Near("not the same attribute",
         f"match {{ h = Softmax<axis=a>(x)\n y = Softmax<axis=a>(h) }}\n{_KEEP}",
         "g (float[2,3] x) => (y) { h = Softmax<axis=0>(x) y = Softmax<axis=1>(h) }", "attribute", "axis=a", "axis = 0"),
    Near("not one node twice", f"match {{ h = Relu(x)\n y = Sub(Tanh(h), Abs(h)) }}\n{_KEEP}",
         "g (float[2] x) => (y) { h = Relu(x) k = Relu(x) a = Tanh(h) b = Abs(k) y = Sub(a, b) }", "same node", "h = Relu",
         "the Relu that makes 'h' and the Relu that makes 'k'"),
    Near("one node for two", f"match {{ y = Sub(Relu(a), Relu(x)) }}\n{_KEEP}",
         "g (float[2] x) => (y) { a = Relu(x) y = Sub(a, a) }", "distinct", "y = Sub", "is already matched with another one"),
    Near("an attribute with another value", f"match {{ y = Softmax<axis=1>(x) }}\n{_KEEP}",
         "g (float[2,3] x) => (y) { y = Softmax<axis=0>(x) }", "attribute", "axis=1", "axis = 0"),
    Near("an attribute's default", f"match {{ y = Softmax<axis=1>(x) }}\n{_KEEP}",
         "g (float[2,3] x) => (y) { y = Softmax(x) }", "attribute", "axis=1", "axis = -1 (by default)"),
    Near("an attribute that is computed", f"match {{ y = MaxPool<pads=[1,1,1,1]>(x) }}\n{_KEEP}", _POOL, "attribute", "pads=",
         "pads = [0, 0, 0, 0] (by default)"),
    Near("an attribute that depends on the rank", f"match {{ y = Transpose<perm=[1,0]>(x) }}\n{_KEEP}",
         "CUSTOM g (float[2] z) => (y) { x = com.acme.Any(z) y = Transpose(x) }", "attribute", "perm=",
         "rank of tensor 'x' is unknown", unknown=True),
    Near("an attribute must be written", f"match {{ y = MaxPool<ceil_mode>(x) }}\n{_KEEP}", _POOL, "attribute", "ceil_mode",
         "has no attribute ceil_mode"),
    Near("an attribute must not be written", f"match {{ y = MaxPool<!strides>(x) }}\n{_KEEP}", _POOL, "attribute", "!strides",
         "strides = [2, 2]"),
    Near("an output that is used though not listed", f"match {{ y = Dropout(x) }}\n{_KEEP}",
         "g (float[2] x) => (y, m) { y, m = Dropout(x) }", "unused output", "y = Dropout", "'m' is an output of the graph"),
    Near("an output that is not there", f"match {{ y, m = MaxPool(x) }}\nwhere uses(m) == 0\n{_KEEP}", _POOL, "outputs",
         "y, m = MaxPool", "makes 1"),
    Near("nobody else reads it", f"match {{ _u = Relu(x)\n y = Tanh(x) }}\n{_KEEP}", "g (float[2] x) => (y, u) { u = Abs(x) y = Tanh(x) }", "consumer", "Relu(x)",
         "is read by the Abs that makes 'u', the Tanh that makes 'y'"),
    Near("not all outputs", f"match {{ *parts = Split<axis=0>(x, ...)\n y = Concat<axis=0>(*parts) }}\n{_KEEP}",
         "g (float[4] x) => (y) { a, b = Split<axis=0>(x) y = Concat<axis=0>(b, a) }", "run", "*parts = Split", "'b', 'a'"),
    Near("another element type", f"match {{ y = Relu(float16[...] x) }}\n{_KEEP}", _relu(), "type", "float16[...]",
         "'x' is float"),
    Near("another rank", f"match {{ y = Relu(tensor[_,_] x) }}\n{_KEEP}", _relu(), "rank", "tensor[_,_]",
         "shape of 'x' is [2,3,4]"),
    Near("another dimension", f"match {{ y = Relu(tensor[2,4,...] x) }}\n{_KEEP}", _relu(), "dimension", "tensor[2,4,...]",
         "shape of 'x' is [2,3,4]"),
    Near("two dimensions that differ", f"match {{ y = Relu(tensor[N,N] x) }}\n{_KEEP}", _relu("2,3"), "dimension",
         "tensor[N,N]", "shape of 'x' is [2,3]"),
    Near("an unknown dimension", f"match {{ y = Relu(tensor[1,...] x) }}\n{_KEEP}", _relu("N,3"), "dimension",
         "tensor[1,...]", "a dimension of tensor 'x' is unknown", unknown=True),
    Near("an unknown rank", f"match {{ y = Relu(tensor[_,_] x) }}\n{_KEEP}",
         "CUSTOM g (float[2] z) => (y) { x = com.acme.Any(z) y = Relu(x) }", "rank", "tensor[_,_]",
         "rank of tensor 'x' is unknown", unknown=True),
    Near("an unknown element type", f"match {{ y = Relu(float[...] x) }}\n{_KEEP}",
         "CUSTOM g (float[2] z) => (y) { x = com.acme.Any(z) y = Relu(x) }", "type", "float[...]",
         "element type of tensor 'x' is unknown", unknown=True),
    Near("not private", f"match {{ h = Relu(x)\n y = Sigmoid(h) }}\nprivate h\n{_KEEP}",
         "g (float[2] x) => (y, z) { h = Relu(x) y = Sigmoid(h) z = Abs(h) }", "private", "private h",
         "is read by the Sigmoid that makes 'y', the Abs that makes 'z'"),
    Near("an output is not private", f"match {{ h = Relu(x)\n y = Sigmoid(h) }}\nprivate h\n{_KEEP}",
         "g (float[2] x) => (y, h) { h = Relu(x) y = Sigmoid(h) }", "private", "private h", "is an output of the graph"),
    Near("not inside", f"match inside If.then_branch {{ y = Relu(x) }}\n{_KEEP}", _relu(), "inside",
         "inside If.then_branch", "the main graph"),
]  # fmt: skip

CONDITIONS = [
    Near("rank", _where("rank(x) > 3"), _relu(), "where", "rank(x) > 3", "rank(x) is 3; x is 'x', an input of the graph"),
    Near("dimension", _where("dim(x, 1) == 4"), _relu(), "where", "dim(x, 1)", "dim(x, 1) is 3"),
    Near("both sides", _where("dim(x, 0) == dim(x, 1)"), _relu(), "where", "dim(x, 0)", "dim(x, 0) is 2; dim(x, 1) is 3"),
    Near("element type", _where("dtype(x) == float16"), _relu(), "where", "dtype(x)", "dtype(x) is float"),
    Near("not", _where("not is_input(x)"), _relu(), "where", "not is_input", "is_input(x) is true"),
    Near("and", _where("rank(x) == 3 and dim(x, 0) == 3"), _relu(), "where", "rank(x) == 3", "dim(x, 0) is 2; x is"),
    Near("or", _where("rank(x) == 1 or dim(x, 0) == 3"), _relu(), "where", "rank(x) == 1",
         "rank(x) is 3; dim(x, 0) is 2"),
    Near("not of or", _where("not (rank(x) == 1 or dim(x, 0) == 2)"), _relu(), "where", "not (", "dim(x, 0) is 2; x is"),
    Near("in", _where("rank(x) in [1, 2]"), _relu(), "where", "rank(x) in", "rank(x) is 3; x is"),
    Near("not in", _where('producer(x) not in ["", "Abs"]'), _relu(), "where", "producer(x)", 'producer(x) is ""'),
    Near("choice", _where("rank(x) == 2 if is_input(x) else rank(x) == 3"), _relu(), "where", "rank(x) == 2 if",
         "is_input(x) is true; rank(x) is 3"),
    Near("uses", _where("uses(y) == 0"), "g (float[2] x) => (z) { y = Relu(x) z = Abs(y) }", "where", "uses(y)",
         "uses(y) is 1; y is 'y', made by Relu"),
    Near("a constant's contents", f"match {{ y = Mul(x, const w) }}\nwhere all(w == 1)\n{_KEEP}",
         "g (float[2] x) => (y) <float[2] w = {1, 2}> { y = Mul(x, w) }", "where", "all(w == 1)",
         "all(w == 1) is false; w is [1.0, 2.0]"),
    Near("a captured attribute", f"match {{ y = MaxPool<strides=s>(x) }}\nwhere s == [1, 1]\n{_KEEP}", _POOL, "where", "s == [1, 1]", "s is [2, 2]"),
    Near("a field", f"match {{ [p] y = MaxPool(x) }}\nwhere p.ceil_mode == 1\n{_KEEP}", _POOL, "where", "p.ceil_mode",
         "p.ceil_mode is 0"),
    Near("a let", f"match {{ y = Relu(x) }}\nlet k = rank(x) + 1\nwhere k == 3\n{_KEEP}", _relu(), "where", "k == 3", "k is 4"),
    Near("arithmetic", _where("dim(x, 0) * 2 == dim(x, 1)"), _relu(), "where", "dim(x, 0) * 2", "dim(x, 0) * 2 is 4"),
    Near("the second line", f"{_WHERE}rank(x) == 3\nwhere dim(x, 2) == 5\n{_KEEP}", _relu(), "where", "dim(x, 2) == 5",
         "dim(x, 2) is 4"),
    Near("a false line behind an unknown one", f"{_WHERE}dim(x, 0) == 1\nwhere dim(x, 1) == 5\n{_KEEP}", _relu("N,3"), "where",
         "dim(x, 1) == 5", "dim(x, 1) is 3"),
    Near("unknown rank", _where("rank(x) > 2"), "CUSTOM g (float[2] z) => (y) { x = com.acme.Any(z) y = Relu(x) }", "where",
         "rank(x) > 2", "rank of tensor 'x' is unknown", unknown=True),
    Near("unknown to the source", _where('source(n, "fix", true)'), _relu(), "where", "source(n", "no source file",
         unknown=True),
    Near("maybe", _where("maybe(rank(x) == 2)"), _relu(), "where", "maybe", "rank(x) is 3"),
    Near("a condition that fails", _where("dim(x, 5) == 1"), _relu(), "where", "dim(x, 5)",
         "a tensor of rank 3 has no dimension 5", error=True),
    Near("opset", _where("opset() >= 20"), _relu(), "where", "opset()", "opset() is 13"),
    Near("exporter", _where('exporter() == "mxnet"'), _relu(), "where", "exporter()", 'exporter() is ""'),
    Near("known shape value", f"match {{ y = Reshape(x, s) }}\nwhere known(value(s))\n{_KEEP}",
         "g (float[N,3] x) => (y) { s = Shape(x) y = Reshape(x, s) }", "where", "known(value(s))",
         "known(value(s)) is false; value(s) is [N, 3]"),
    Near("a rewrite that changes nothing", "match { [n] y = Softmax<axis=1>(x) }\nrewrite { n.axis = 1 }",
         "g (float[2,3] x) => (y) { y = Softmax<axis=1>(x) }", "rewrite", "rewrite", "it would change nothing"),
    Near("a rewrite that makes the same node", "match { y = Softmax<axis=1>(x) }\nrewrite { y = Softmax<axis=1>(x) }",
         "g (float[2,3] x) => (y) { y = Softmax<axis=1>(x) }", "rewrite", "rewrite", "it would change nothing"),
]  # fmt: skip

CUSTOM = '<ir_version: 8, opset_import: ["": 13, "com.acme": 1]>'
ALL = [near if not near.model.startswith("CUSTOM ") else Near(
    near.name, near.rule, CUSTOM + near.model[6:], near.kind, near.asks, near.found, near.unknown, near.error
) for near in (*STRUCTURE, *CONDITIONS)]  # fmt: skip
