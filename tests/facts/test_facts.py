"""Types, shapes and constants of tensors: what is inferred, what is declared, and which of the two is believed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.facts import infer
from rewriter.core.facts.facts import Facts, refresh
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model

FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11


class Known:
    """Facts of a model, asked by tensor name."""

    def __init__(self, text: str, opset: int = 17, plain: bool = False, overridable: tuple[str, ...] = ()) -> None:
        proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "com.acme": 1]> {text}')
        self.graph = gs.import_onnx(proto) if plain else Model.from_proto(proto).graph
        index = GraphIndex(self.graph)
        self.facts = Facts(index, overridable)
        self.tensors = {t.name: t for scope in index.scopes for t in (*scope.graph.inputs, *scope.graph.outputs)}
        nodes = [node for scope in index.scopes for node in scope.graph.nodes]
        self.tensors |= {t.name: t for node in nodes for t in (*node.inputs, *node.outputs)}

    def shape(self, name: str) -> tuple[int | str | None, ...] | None:
        return self.facts.shape(self.tensors[name])

    def dtype(self, name: str) -> int | None:
        return self.facts.dtype(self.tensors[name])

    def constant(self, name: str) -> np.ndarray | None:
        return self.facts.constant(self.tensors[name])

    def is_constant(self, name: str) -> bool:
        return self.facts.is_constant(self.tensors[name])


@pytest.mark.parametrize("plain", [False, True])
def test_types_and_shapes_follow_from_the_inputs(plain: bool) -> None:
    known = Known(
        """g (float[N,3,8,8] x) => (y) <float[2,3,1,1] w = {1,2,3,4,5,6}> {
            c = Conv<strides=[2,2]>(x, w)
            r = Relu(c)
            m = GlobalAveragePool(r)
            y = Flatten(m)
        }""",
        plain=plain,
    )
    assert known.shape("c") == ("N", 2, 4, 4)
    assert known.shape("y") == ("N", 2)
    assert known.dtype("y") == FLOAT
    assert known.is_constant("w") and not known.is_constant("x")


@pytest.mark.parametrize("opset", [8, 10, 11])
def test_negative_axes_count_from_the_end_in_every_opset(opset: int) -> None:
    known = Known(
        """g (float[N,2,3,1] x) => (s, u, both, joined) {
            s = Squeeze<axes=[-1]>(x)
            u = Unsqueeze<axes=[-2]>(x)
            both = Unsqueeze<axes=[0,-1]>(x)
            joined = Concat<axis=-3>(x, x)
        }""",
        opset,
    )
    assert known.shape("s") == ("N", 2, 3)
    assert known.shape("u") == ("N", 2, 3, 1, 1)
    assert known.shape("both") == (1, "N", 2, 3, 1, 1)
    assert known.shape("joined") == ("N", 4, 3, 1)


def test_a_broken_node_leaves_its_neighbours_alone() -> None:
    known = Known(
        """g (float[2,3,1,1] x, float[5,3] w) => (a, b) {
            y = Gemm<transB=1>(x, w)
            a = Relu(y)
            b = Relu(x)
        }"""
    )
    assert known.shape("y") is None and known.shape("a") is None
    assert known.shape("b") == (2, 3, 1, 1)


@pytest.mark.parametrize("op", ["Squeeze", "Unsqueeze"])
def test_outputs_that_the_operator_does_not_have_are_unknown(op: str) -> None:
    known = Known(f"g (float[2,1] x) => (y) {{ y, more = {op}<axes=[-1]>(x) }}", opset=11)
    assert known.shape("more") is None


def test_inference_is_believed_against_a_stale_declaration() -> None:
    known = Known("g (float[2,3] x) => (int64[7] y) { y = Relu(x) }")
    assert known.shape("y") == (2, 3)
    assert known.dtype("y") == FLOAT
    assert known.facts.declared(known.tensors["y"]) == (INT64, (7,))


def test_a_declaration_counts_where_nothing_could_contradict_it() -> None:
    known = Known("g (float[2,3] x) => (float[4] z, float[7] u) <int64[2] s = {3, 2}> { z = com.acme.Foo(x)  u = NonZero(x) }")
    assert (known.dtype("z"), known.shape("z")) == (FLOAT, (4,))
    assert known.shape("u") == (2, None)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("g (float[N,3] x) => (float[8,3] y) { y = Relu(x) }", ("N", 3)),
        ("g (float[2,3] x, int64[2] s) => (float[6,M] y) { y = Reshape(x, s) }", (None, None)),
        ("g (float[N,3,4] x, float[M] z) => (float[1,12] y) <int64[1] m = {-1}>"
         "{ s = Shape(z)  c = Concat<axis=0>(s, m)  y = Reshape(x, c) }", ("M", None)),
        ("g (float[N,1,5] x) => (float[2,5] y) <int64[1] a = {1}> { y = Squeeze(x, a) }", ("N", 5)),
        ("g (float[N,3] x) => (float[2,5] y) { y = com.acme.Foo(x) }", (None, None)),
        ("g (float[N,3] x) => (float[N] y) { y = ai.onnx.ml.Foo(x) }", None),
        ("g (float[2] x, bool c) => (float[2] y) { y = If(c) <"
         "then_branch = t () => (a) { a = Identity(x) }, else_branch = e () => (b) { b = Concat<axis=0>(x, x) }> }", (None,)),
        ("g (int64 n, bool c, float[2] v) => (y) { y = Loop(n, c, v) <body = b (int64 i, bool k, float[2] a) =>"
         "(bool k2, float[2] r) { k2 = Identity(k)  r = Concat<axis=0>(a, a) }> }", (None,)),
    ],
)  # fmt: skip
def test_a_declared_length_is_a_claim_where_something_varies(text: str, shape: tuple[int | str | None, ...] | None) -> None:
    assert Known(text).shape("y") == shape


@pytest.mark.parametrize(
    ("opset", "text", "shape"),
    [
        (13, "g (float[?,S,4] x) => (y) <int64[4] s = {0,0,2,2}> { y = Reshape(x, s) }", (None, "S", 2, 2)),
        (13, "g (float[?,4] x) => (y) <int64[3] s = {0,2,-1}> { y = Reshape(x, s) }", (None, 2, 2)),
        (10, "g (float[N,3] x) => (y) <int64[1] s = {0}, int64[1] e = {1}> { y = Slice(x, s, e, s) }", (None, 3)),
        (10, "g (float[N,3] x) => (y) <int64[1] s = {0}, int64[1] e = {1}> { y = Slice(x, s, e, e) }", ("N", 1)),
        (13, "g (float[5,9] x, int64[1] t) => (y) <int64[1] s = {8}, int64[1] e = {0}, int64[1] a = {1}>"
         "{ y = Slice(x, s, e, a, t) }", (5, None)),
        (17, "g (float[1,64,1] x) => (y) <int64 step = {8}, float[16] w> { y = STFT(x, step, w) }", (1, 7, 9, 2)),
        (17, "g (float[1,64,1] x) => (y) <int64 step = {8}, float[16] w> { y = STFT<onesided=0>(x, step, w) }", (1, 7, 16, 2)),
        (23, "g (float[2,4,24] q, float[2,6,24] k, float[2,6,?] v) => (y)"
         "{ y = Attention<q_num_heads=3, kv_num_heads=3>(q, k, v) }", (2, 4, None)),
        (23, "g (float[2,4,24] q, float[2,6,24] k, float[2,6,30] v) => (y)"
         "{ y = Attention<q_num_heads=3, kv_num_heads=3>(q, k, v) }", (2, 4, 30)),
        (23, "g (float[2,4,24] q, float[2,6,24] k, float[2,6,30] v, float[4,6] m) => (z, p, r, y)"
         "{ z, p, r, y = Attention<q_num_heads=3, kv_num_heads=3>(q, k, v, m) }", (2, 3, 4, 6)),
        (19, "g (float[1,1,8] x) => (y) { y = MaxPool<kernel_shape=[3], strides=[2], ceil_mode=2>(x) }", (1, 1, None)),
        (18, "g (float[2,3] x) => (y) <int64[0] a = {}> { y = ReduceSum<noop_with_empty_axes=-1>(x, a) }", None),
        (13, "g (float[1,6,N,1] x, float[6] s) => (y) { y = PRelu(x, s) }", (1, 6, "N", 6)),
        (17, "g (float[3,5,N] x, int64[2,4] t) => (y) { y = NegativeLogLikelihoodLoss<reduction=\"none\">(x, t) }", (2, 4)),
    ],
)  # fmt: skip
def test_what_inference_gets_wrong_is_put_right(opset: int, text: str, shape: tuple[int | str | None, ...] | None) -> None:
    assert Known(text, opset).shape("y") == shape


def test_unknown_dimensions_of_a_file_are_unknown() -> None:
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[1,3] x) => (y) { y = Relu(x) }')
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = ""
    graph = Model.from_proto(proto).graph
    assert Facts(GraphIndex(graph)).shape(graph.outputs[0]) == (None, None)


@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (9, "BatchNormalization<spatial=0>(x, c, c, c, c)"),
        (13, "Dropout<ratio=0.5>(x)"),
        (9, "Dropout<is_test=1>(x)"),
        (13, "Clip<min=0.0>(x)"),
        (11, "LeakyRelu<alpha=0.1, consumed_inputs=[0,0]>(x)"),
        (13, "ImageScaler<scale=2.0>(x)"),
        (7, "PRelu<made_up=1>(x, c)"),
        (26, "CumProd<made_up=1>(x, c)"),
    ],
)
def test_attributes_of_another_version_do_not_hide_the_shape(opset: int, node: str) -> None:
    known = Known(f"g (float[N,3,5,5] x, float[3] c) => (y) {{ y = {node} }}", opset)
    assert (known.dtype("y"), known.shape("y")) == (FLOAT, ("N", 3, 5, 5))


@pytest.mark.parametrize(
    "node", ["IsNaN<made_up=1>(x)", "Cast<made_up=1>(x)", "BitShift<made_up=1>(x, c)", "BitwiseOr<made_up=1>(x, x)"]
)
def test_the_form_of_an_operator_tells_the_shape_where_inference_is_lost(node: str) -> None:
    known = Known(f"g (float[N,3,5,5] x, float[5] c) => (y) {{ y = {node} }}", 18)
    assert known.shape("y") == ("N", 3, 5, 5)
    assert known.dtype("y") == {"I": BOOL, "B": FLOAT}.get(node[0])


@pytest.mark.parametrize(
    ("opset", "node", "shape"),
    [
        (10, "Upsample(x, s)", (2, 3, 10, 15)),
        (9, "Upsample<scales=[1.0,1.0,2.0,3.0]>(x)", (2, 3, 10, 15)),
        (13, "Unsqueeze<axes=[0]>(x)", (1, 2, 3, 5, 5)),
        (13, "Split<axis=3, split=[2,3]>(x)", (2, 3, 5, 2)),
        (7, "AveragePool<kernel_shape=[2,2], count_include_pad=1>(x)", (2, 3, 4, 4)),
        (9, "AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x)", (2, 3, 3, 3)),
        (8, "Crop<border=[1,0,1,2]>(x)", (2, 3, 3, 3)),
    ],
)
def test_a_node_of_another_version_is_read_as_it_was_meant(opset: int, node: str, shape: tuple[int, ...]) -> None:
    outputs = "y, z" if node.startswith("Split") else "y"
    known = Known(f"g (float[2,3,5,5] x) => (y) <float[4] s = {{1, 1, 2, 3}}> {{ {outputs} = {node} }}", opset)
    assert known.shape("y") == shape


def test_operand_types_of_a_later_version_are_understood() -> None:
    known = Known("g (int64[2,1] a, int64[3] b) => (y) { y = Min(a, b) }", opset=11)
    assert (known.dtype("y"), known.shape("y")) == (INT64, (2, 3))


def test_operands_of_different_types_still_broadcast() -> None:
    known = Known("g (float[N,3] x, double[1] s) => (y, z) { y = Mul(x, s)  z = Less(x, s) }")
    assert (known.dtype("y"), known.shape("y")) == (FLOAT, ("N", 3))
    assert (known.dtype("z"), known.shape("z")) == (BOOL, ("N", 3))


def test_pooling_that_rounds_up_leaves_out_windows_behind_the_input() -> None:
    known = Known("g (float[1,1,5] x) => (y) { y = AveragePool<kernel_shape=[1], strides=[3], ceil_mode=1>(x) }", 13)
    assert known.shape("y") == (1, 1, 2)


def test_a_length_that_runtimes_round_differently_is_unknown() -> None:
    known = Known("g (float[1,9] x) => (y) <float[2] s = {1, 1.4444444}> { y = Upsample(x, s) }", 9)
    assert known.shape("y") == (1, None)


def test_constants_fold_through_what_moves_weights() -> None:
    known = Known(
        """g (float[2] x) => (y, d) <float[2,3] w = {1,2,3,4,5,6}, int8[2] q = {-3, 4}, float s = {0.5}, int8 z = {1}> {
            t = Transpose<perm=[1,0]>(w)
            k = Constant<value_ints=[1,-1]>()
            r = Reshape(t, k)
            i = Identity(r)
            y = Mul(i, i)
            d = DequantizeLinear(q, s, z)
        }"""
    )
    assert known.is_constant("y")
    np.testing.assert_array_equal(known.constant("r"), [[1, 4, 2, 5, 3, 6]])
    np.testing.assert_array_equal(known.constant("y"), [[1, 16, 4, 25, 9, 36]])
    np.testing.assert_array_equal(known.constant("d"), [-2.0, 1.5])
    assert not known.constant("y").flags.writeable


def test_division_of_constant_integers_is_towards_zero_and_never_by_zero() -> None:
    known = Known(
        """g (float x) => (y, z) <int64[3] a = {7, -7, 7}, int64[3] b = {2, 2, -2}, int64[3] o = {1, 0, 1}> {
            y = Div(a, b)
            z = Div(a, o)
        }"""
    )
    np.testing.assert_array_equal(known.constant("y"), [3, -3, -3])
    assert known.constant("z") is None


def test_what_a_caller_can_override_is_no_constant() -> None:
    text = "g (float[2] x) => (y) <float[2] w = {1, 2}, int64[1] s = {2}> { y = Neg(w)  z = Reshape(x, s) }"
    known = Known(text, overridable=("w",))
    assert known.dtype("w") == FLOAT and known.shape("w") == (2,)
    assert not known.is_constant("w") and not known.is_constant("y") and known.constant("y") is None
    assert known.is_constant("s")


def test_hostile_sizes_are_not_made() -> None:
    known = Known(
        """g (float x) => (y, z) <int64[2] big = {1000000, 1000000}, int64[2] bad = {-1, 4}> {
            y = ConstantOfShape(big)
            z = ConstantOfShape(bad)
            e = Expand(x, big)
        }"""
    )
    assert known.shape("y") == (1000000, 1000000)
    assert not known.is_constant("y") and known.constant("y") is None
    assert not known.is_constant("z")


def test_asking_whether_it_is_constant_loads_no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Known("g (float[2,3] x) => (y) <float[3,3] w = {1,2,3,4,5,6,7,8,9}> { t = Transpose(w)  y = MatMul(x, t) }")
    loaded = []
    monkeypatch.setattr("rewriter.core.graph.values.read_tensor", lambda *arguments: loaded.append(arguments))
    assert known.is_constant("t") and known.shape("y") == (2, 3)
    assert not loaded


def test_sequences_carry_the_type_of_their_elements() -> None:
    known = Known(
        """g (float[2,3] x) => (y) {
            e = SequenceEmpty()
            s = SequenceInsert(e, x)
            y = ConcatFromSequence<axis=0>(s)
        }"""
    )
    assert known.dtype("s") is None and known.shape("s") is None
    assert known.dtype("y") == FLOAT


def test_an_if_gives_what_its_branches_have_in_common() -> None:
    text = """g (float[N,3] x, bool {c}) => (y, n) {{ {d}
        y, n = If({use}) <
            then_branch = t () => (a, p) {{ a = Relu(x)  p = Constant<value_ints=[1,2]>() }},
            else_branch = e () => (b, q) {{ b = Concat<axis=0>(x, x)  q = Constant<value_ints=[1,3]>() }}>
    }}"""
    known = Known(text.format(c="c", d="", use="c"))
    assert (known.dtype("y"), known.shape("y")) == (FLOAT, (None, 3))
    assert known.facts.value(known.tensors["n"]).items == (1, None)
    assert not known.is_constant("n")
    decided = Known(text.format(c="c", d="k = Constant<value = bool[1] {1}>()", use="k"))
    assert decided.shape("y") == ("N", 3)


def test_a_loop_does_not_believe_that_shapes_stay() -> None:
    known = Known(
        """g (float[N,3] x, int64 m, bool k) => (y, s) {
            y, s = Loop(m, k, x) <body = b (int64 i, bool c, v) => (c2, v2, o) {
                c2 = Identity(c)
                v2 = Concat<axis=0>(v, v)
                o = Shape(x)
            }>
        }"""
    )
    assert (known.dtype("y"), known.shape("y")) == (FLOAT, None)
    assert (known.dtype("s"), known.shape("s")) == (INT64, (None, 2))
    assert (known.dtype("v"), known.shape("v"), known.shape("i"), known.dtype("c")) == (FLOAT, None, (), BOOL)


def test_a_scan_passes_slices_in_and_stacks_results() -> None:
    known = Known(
        """g (float[3] h, float[T,4] x) => (y, s) {
            y, s = Scan(h, x) <num_scan_inputs = 1, body = b (float[3] v, e) => (v2, o) { v2 = Identity(v)  o = Neg(e) }>
        }"""
    )
    assert known.shape("e") == (4,) and known.dtype("e") == FLOAT
    assert known.shape("y") == (3,)
    assert known.shape("s") == ("T", 4)


def test_the_inside_of_a_function_knows_only_what_it_makes() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "f": 1]> g (float[2] x) => (y) { y = f.Twice(x) }
        <domain: "f", opset_import: ["": 17]> Twice <k> (a) => (b) {
            c = Cast<to=1>(a)
            d = Flatten<axis: int = @k>(c)
            b = Add(d, d)
        }"""
    )
    index = GraphIndex(Model.from_proto(proto).graph)
    facts = Facts(index)
    cast, flatten, _ = index.scopes[1].graph.nodes
    assert facts.dtype(cast.outputs[0]) == FLOAT and facts.shape(cast.outputs[0]) is None
    assert facts.shape(flatten.outputs[0]) in (None, (None, None))
    assert facts.shape(index.graph.outputs[0]) is None


def test_a_chain_of_any_length_is_no_recursion() -> None:
    graph = gs.Graph(opset=17)
    tensor = gs.Variable("x", np.float32, ["N", 4])
    weight = gs.Constant("w", np.arange(6, dtype=np.float32))
    graph.inputs = [tensor]
    for i in range(5_000):  # five times what Python would recurse
        made, folded = gs.Variable(f"t{i}"), gs.Variable(f"w{i}")
        graph.nodes.append(gs.Node("Relu", inputs=[tensor], outputs=[made]))
        graph.nodes.append(gs.Node("Neg", inputs=[weight], outputs=[folded]))
        tensor, weight = made, folded
    graph.outputs = [tensor, weight]
    facts = Facts(GraphIndex(graph))
    assert facts.shape(tensor) == ("N", 4)
    np.testing.assert_array_equal(facts.constant(weight), np.arange(6, dtype=np.float32))


def test_cycles_and_missing_producers_end() -> None:
    a, b, c, lost = (gs.Variable(name) for name in "abcl")
    nodes = [gs.Node("Add", inputs=[b, lost], outputs=[a]), gs.Node("Concat", attrs={"axis": 0}, inputs=[a, c], outputs=[b])]
    graph = gs.Graph([*nodes, gs.Node("Relu", inputs=[a], outputs=[c])], [], [c], opset=17)
    facts = Facts(GraphIndex(graph))
    assert [facts.shape(t) for t in (a, b, c, lost)] == [None] * 4
    lost.dtype, lost.shape = np.float32, [2]
    refresh(facts, [lost])
    assert facts.dtype(lost) == FLOAT


def test_a_shape_that_grows_in_a_cycle_is_followed_up_to_a_bound() -> None:
    x, y, places = gs.Variable("x", np.float32, (2, 3)), gs.Variable("y", np.float32, ("K", 4)), gs.Variable("c")
    cast = gs.Node("Cast", attrs={"to": 7}, inputs=[y], outputs=[places])
    graph = gs.Graph([cast, gs.Node("Gather", inputs=[x, places], outputs=[y])], [x], [y], opset=9)
    facts = Facts(GraphIndex(graph))
    for _ in range(100):  # each time Gather has the dimensions of its own result, and one more
        facts.shape(y)
        refresh(facts, [y, places])
    assert len(facts.shape(y) or ()) <= infer.MOST_DIMENSIONS


def test_strange_attributes_are_survived() -> None:
    x, outputs = gs.Variable("x", np.float32, (2, 3)), [gs.Variable(f"y{i}") for i in range(4)]
    nodes = [
        gs.Node("Flatten", attrs={"axis": object()}, inputs=[x], outputs=[outputs[0]]),
        gs.Node("Transpose", attrs={"perm": [5, 7]}, inputs=[x], outputs=[outputs[1]]),
        gs.Node("Concat", attrs={"axis": 2**70}, inputs=[x, x], outputs=[outputs[2]]),
        gs.Node("Cast", attrs={"to": 4711}, inputs=[x], outputs=[outputs[3]]),
    ]
    facts = Facts(GraphIndex(gs.Graph(nodes, [x], outputs, opset=17)))
    assert facts.shape(outputs[1]) is None
    for tensor in outputs:
        facts.shape(tensor), facts.dtype(tensor), facts.value(tensor), facts.constant(tensor)


@pytest.mark.parametrize(
    ("op", "domain", "attrs", "outputs"),
    [
        ("LayerNormalization", "", {"axis": 2**31}, 2),
        ("LayerNormalization", "", {"axis": -9}, 2),
        ("Split", "", {"num_outputs": 2, "axis": 1}, 3),
        ("GatherND", "", {"batch_dims": -5}, 1),
        ("Einsum", "", {"equation": b"\xff"}, 1),
        ("DictVectorizer", "ai.onnx.ml", {"int64_vocabulary": []}, 1),
        ("LabelEncoder", "ai.onnx.ml", {"keys_int64s": [1], "values_int64s": [2], "values_strings": []}, 1),
        ("RegexFullMatch", "", {}, 1),
    ],
)
def test_what_the_inference_does_not_survive_is_kept_from_it(
    op: str, domain: str, attrs: dict[str, object], outputs: int
) -> None:
    operands = [gs.Variable("x"), gs.Variable("i", np.int64, [3, 2])]
    made = [gs.Variable(f"y{i}") for i in range(outputs)]
    node = gs.Node(op, attrs=attrs, inputs=operands[: 1 if op == "Split" else 2], outputs=made, domain=domain)
    imports = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("ai.onnx.ml", 4)]
    facts = Facts(GraphIndex(gs.Graph([node], operands, made, opset=20, import_domains=imports)))
    assert all(facts.shape(tensor) is None for tensor in made)
