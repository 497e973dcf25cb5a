"""Rules that make models worse, each in its own way, and ten real exports to let them loose on."""

from __future__ import annotations

from pathlib import Path

import onnx

from tests.cli.call import MODELS

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
TEN = [
    *sorted(MODELS.glob("*.onnx")),
    *(LIGHT / f"light_{name}.onnx" for name in ("bvlc_alexnet", "inception_v1", "squeezenet")),
]
OPERATORS = "AveragePool | BatchNormalization | Gemm | ReduceMean | Softmax"

INVALID = f"""
/// A Flatten with the attributes of another operator.
rule BAD001 attributes-of-another-operator <kind: exact, severity: error>
match {{ [n] y = ({OPERATORS})(x, ...) }}
rewrite {{ y = Flatten<..n, axis=9>(x) }}
"""

REFUSED = f"""
/// An operator of a domain that nobody implements; the checker does not mind.
rule BAD002 nobody-implements-it <kind: exact, severity: error, phase: cleanup>
match {{ y = ({OPERATORS})(x, ...) }}
rewrite {{ y = com.acme.Anything(x) }}
"""

WRONG = """
/// The numbers of the operand change their sign; types and shapes stay.
rule BAD003 negated <kind: exact, severity: error>
match { [n] y = (AveragePool | BatchNormalization | Gemm | ReduceMean)(x, ...) }
where not ("Neg" == producer(x))
rewrite { neg = Neg(x)  n.inputs[0] = neg }

/// What sums up to one, does no longer.
rule BAD004 no-softmax <kind: exact, severity: error>
match { y = Softmax(x) }
rewrite { y = Abs(x) }
"""

SORTS = {"invalid": INVALID, "refused": REFUSED, "wrong": WRONG}
