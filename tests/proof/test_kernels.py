"""Whether ONNX Runtime has a kernel for a node: by loading the node alone, and for recurrent ones by running it."""

from __future__ import annotations

import onnx
import pytest

from rewriter.trust.proof import judges
from rewriter.trust.proof.judges import has_kernel


def node(text: str, dtype: str, operands: int) -> onnx.ModelProto:
    inputs = ", ".join(f"{dtype}[a{i},b{i},c{i}] i{i}" for i in range(operands))
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 14]> g ({inputs}) => (y) {{ y = {text} }}')


@pytest.mark.parametrize(
    ("text", "operands", "double"),
    [("Conv(i0, i1)", 2, False), ("Add(i0, i1)", 2, True), ("LSTM<hidden_size=3>(i0, i1, i2)", 3, False)],
)
def test_a_kernel_is_there_or_not(text: str, operands: int, double: bool) -> None:
    assert has_kernel(node(text, "float", operands)) is True
    assert has_kernel(node(text, "double", operands)) is double


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_a_kernel_that_says_no_when_it_runs_is_asked_about_types_alone(op: str) -> None:
    """A bias has two dimensions; an array of three was refused for that, and this was taken for a yes."""
    text = f"{op}<hidden_size=3>(i0, i1, i2, i3)"
    for dtype, there in (("float", True), ("double", False)):
        model = node(text, dtype, 4)
        del model.graph.input[3].type.tensor_type.shape.dim[2]
        assert has_kernel(model) is there


@pytest.mark.parametrize("axis", [0, 3, -1])
def test_the_axis_does_not_matter(axis: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (DTYPE[a,b,c,d] x, int64[a,b,c,d] i) => (y) {{
      y = ScatterElements<axis={axis}, reduction="add">(x, i, x) }}"""
    assert has_kernel(onnx.parser.parse_model(text.replace("DTYPE", "float"))) is True
    assert has_kernel(onnx.parser.parse_model(text.replace("DTYPE", "float16"))) is False


@pytest.mark.parametrize("op", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_a_scatter_of_bfloat16_is_asked_about(op: str, reduction: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 18]>
      g (DTYPE[a,b] x, int64[c,d] i, DTYPE[e,f] u) => (y) {{ y = {op}<reduction="{reduction}">(x, i, u) }}"""
    assert has_kernel(onnx.parser.parse_model(text.replace("DTYPE", "float"))) is True
    assert has_kernel(onnx.parser.parse_model(text.replace("DTYPE", "bfloat16"))) is (reduction == "none")


def test_a_scatter_of_float16_that_adds_is_asked_about() -> None:
    text = """<ir_version: 8, opset_import: ["": 18]>
      g (float16[a,b] x, int64[c,d] i, float16[e,f] u) => (y) { y = ScatterND<reduction="add">(x, i, u) }"""
    assert has_kernel(onnx.parser.parse_model(text)) is False
    assert has_kernel(onnx.parser.parse_model(text.replace('"add"', '"none"'))) is True


def test_shapes_that_are_not_known_say_nothing_of_kernels() -> None:
    """ONNX's shape inference takes sizes of unknown number for none, and refuses the node before a kernel is looked for."""
    text = """<ir_version: 8, opset_import: ["": 17]>
      g (DTYPE[a,b,c,d] x, float[e] roi, float[f] scales, int64[h] sizes) => (y) { y = Resize(x, roi, , sizes) }"""
    assert has_kernel(onnx.parser.parse_model(text.replace("DTYPE", "float"))) is True
    assert has_kernel(onnx.parser.parse_model(text.replace("DTYPE", "double"))) is False


def test_a_model_that_is_refused_for_another_reason_says_nothing_of_kernels() -> None:
    model = node("Add(i0, i1)", "float", 2)
    model.graph.node[0].input[1] = "nowhere"
    assert has_kernel(model) is not None


def test_a_locale_that_is_not_installed_is_a_kernel_that_is_not_there() -> None:
    text = """<ir_version: 8, opset_import: ["": 14]>
      g (string[a] x) => (y) { y = StringNormalizer<case_change_action="LOWER", locale="LOCALE">(x) }"""
    assert has_kernel(onnx.parser.parse_model(text.replace("LOCALE", "C"))) is True
    assert has_kernel(onnx.parser.parse_model(text.replace("LOCALE", "nowhere.UTF-8"))) is False


def test_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "installed", lambda: False)
    assert judges.has_kernel(node("Add(i0, i1)", "float", 2)) is None
