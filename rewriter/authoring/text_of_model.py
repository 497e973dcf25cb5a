"""A model as the tests of rule files have it: ONNX text that is read as what it was made of."""

from __future__ import annotations

import re

import onnx
import onnx.printer

from rewriter.errors import RewriterError
from rewriter.explain.testing import read_model
from rewriter.inspect.model_text import canonical_text

_PRINTED = "   "  # by which onnx indents
_IMPORT = re.compile(r'"([^"]*)" : (\d+)')


def model_text(model: onnx.ModelProto) -> str:
    """The lines of a model, its header on the first one, indented by two blanks.

    Raises:
        RewriterError: ONNX text, or a rule file, cannot say what is in the model.
    """
    lines = str(onnx.printer.to_text(model)).strip().splitlines()
    end = lines.index(">") if lines[0] == "<" and ">" in lines else -1
    head = " ".join(line.strip() for line in lines[1:end]) if end > 0 else ""
    shown = [f"<{_IMPORT.sub(_joined, head)}>"] if head else []
    for line in lines[end + 1 :]:
        inner = line.lstrip(" ")
        shown.append("  " * ((len(line) - len(inner)) // len(_PRINTED)) + inner.rstrip())
    text = "\n".join(f"  {line}" for line in shown)
    if "~~~" in text or not text.replace("\n", "").isprintable():
        raise RewriterError(
            "the model has names or texts that no rule file may hold; rename them first: rewriter edit --rename"
        )
    try:
        same = canonical_text(read_model(text)) == canonical_text(model)
    except RewriterError:
        same = False
    if not same:
        raise RewriterError("ONNX text cannot say all that is in the model")
    return text


def _joined(found: re.Match[str]) -> str:
    return f'"{found[1]}": {found[2]}'
