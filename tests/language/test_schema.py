"""What is asked of the ONNX schemas, against facts of the specification."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rewriter.core.language import schema
from rewriter.core.language.functions import FUNCTIONS
from rewriter.core.language.operator_traits import TRAITS
from rewriter.rule_tools.checks.operators import EXPERIMENTAL, FOREIGN


def test_versions_and_forms() -> None:
    assert schema.versions("Unsqueeze")[:3] == (1, 11, 13)
    assert schema.versions("Unsqueeze", "ai.onnx") == schema.versions("Unsqueeze")
    assert schema.versions("Nonsense") == ()
    early, late = schema.schema("Unsqueeze", "", 12), schema.schema("Unsqueeze", "", 13)
    assert early is not None
    assert late is not None
    assert (early.min_inputs, early.max_inputs, sorted(early.attributes)) == (1, 1, ["axes"])
    assert (late.signature, late.since, dict(late.attributes)) == ("Unsqueeze(data, axes)", 13, {})
    assert schema.schema("Gelu", "", 19) is None
    concat = schema.schema("Concat", "", 13)
    assert concat is not None
    assert (concat.max_inputs, concat.signature) == (None, "Concat(inputs...)")


def test_deprecated() -> None:
    assert schema.deprecated_since("Upsample") == 10
    assert schema.exists("Upsample", "", 9)
    assert not schema.exists("Upsample", "", 10)
    assert schema.deprecated_since("Relu") is None


def test_domains() -> None:
    assert schema.is_known_domain("")
    assert schema.is_known_domain("ai.onnx.ml")
    assert not schema.is_known_domain("com.acme")
    assert schema.domains_of("ZipMap") == ("ai.onnx.ml",)
    assert schema.latest_opset("com.acme") == 1
    assert schema.latest_opset() >= 21


@pytest.mark.parametrize(
    ("op", "version", "attr", "value"),
    [
        ("Gemm", 13, "alpha", 1.0),
        ("Softmax", 12, "axis", 1),
        ("Softmax", 13, "axis", -1),
        ("Conv", 11, "auto_pad", "NOTSET"),
        ("BatchNormalization", 9, "training_mode", 0),
        ("Reshape", 5, "allowzero", 0),
        ("BatchNormalization", 9, "spatial", None),
        ("Resize", 10, "coordinate_transformation_mode", "asymmetric"),
        ("Resize", 11, "coordinate_transformation_mode", "half_pixel"),
        ("Resize", 10, "nearest_mode", None),
        ("Conv", 11, "pads", None),
        ("Gemm", 13, "nonsense", None),
        ("Nonsense", 13, "axis", None),
    ],
)
def test_effective_default(op: str, version: int, attr: str, value: object) -> None:
    assert schema.effective_default(op, "", version, attr) == value


def test_computed_defaults_name_attributes_that_exist() -> None:
    for op, known in TRAITS.items():
        assert set(known.prose) <= schema.all_attributes(op), op
    assert schema.computed_default("Transpose", "", "perm") == "axes reversed"
    assert schema.computed_default("Transpose", "com.acme", "perm") is None


def test_tables_name_operators_that_exist() -> None:
    for op in TRAITS.keys() - EXPERIMENTAL:
        assert schema.history(op), op
    for op in EXPERIMENTAL | FOREIGN:
        assert not schema.history(op), op


def test_attributes_within_a_range() -> None:
    assert schema.attributes("Split", "", (11, 12, 13))["split"] == (11, 12)
    assert schema.subgraphs("If", "") == ("else_branch", "then_branch")
    assert schema.attribute_kinds("Cast", "", "to") == {"int", "string"}


def test_onnx_is_not_imported_for_parsing() -> None:
    code = "import sys, rewriter.core.language.rules; sys.exit(bool({'onnx', 'numpy', 'lark'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_functions_have_readable_signatures() -> None:
    size = FUNCTIONS["size"]
    assert (size.minimum, size.maximum, size.argument(1)) == (1, 2, "int|range")
    assert FUNCTIONS["exporter"].maximum == 0
    assert FUNCTIONS["min"].maximum is None
    assert FUNCTIONS["min"].argument(5) == "array|list|number"
    for function in FUNCTIONS.values():
        assert function.doc, function.name


def test_onnx_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = (
        "import sys; from rewriter.core.language import schema\n"
        "names = [(op, domain) for domain in schema.domains() for op in schema.operators(domain)]\n"
        "print([schema.history(*name) for name in names], schema.latest_opset(), schema.domains_of('ZipMap'), 'onnx' in sys.modules)"
    )
    first, again = (
        subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout for _ in "12"
    )
    assert (first[-5:], again[-6:]) == ("True\n", "False\n")
    assert first.replace("True\n", "") == again.replace("False\n", "")
