"""`rewriter edit`: changes to a model's interface, names, nodes and weights."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rewriter.app.cli.surgery import add_result

EDITS = (
    ("rename", "OLD=NEW", "another name for a tensor or node; /PATTERN/REPLACEMENT/ for all that a regular expression fits"),
    ("add-output", "T,...", "make outputs of tensors, of what nodes make, or of what all nodes of an operator make (op:Conv)"),
    ("type", "NAME:TYPE", "the type of a new output that the model does not tell, as 'x:float[1,3,N]'"),
    ("drop-output", "T,...", "take outputs away, and the nodes that nothing else needs"),
    ("drop", "NODE,...", "take nodes out; who read one reads its first operand instead"),
    ("insert-after", "T=OP", "put a node after a tensor, as 'x=Mul(_, 0.5)', 'x=Sub(_, @mean.npy)' or 'y=Softmax<axis=1>'"),
    ("replace", "OLD=NEW", "another operator for all nodes of one, or for named nodes"),
    ("set", "NODE.attr=VALUE", "set an attribute; none takes it away"),
    ("shape", "INPUT:DIMS", "another shape of an input, as x:N,3,H,W; the whole graph follows"),
    ("batch", "DIM", "a number or name for the first dimension of the inputs that share the first one's"),
    ("dtype", "NAME=TYPE", "another element type of an input or output; a Cast is put between"),
    ("constant", "INPUT=VALUE", "make an initializer of an input: @FILE.npy, @FILE.npz, a number or a list"),
    ("free", "WEIGHT", "make an input of an initializer"),
    ("set-weight", "W=VALUE", "other values for an initializer: @FILE.npy, or @FILE.npz by its name"),
    ("strip", "WORDS", "take away doc, metadata, value_info, names (of nodes): a list of these words"),
    ("doc", "TEXT", "the doc string of the model"),
    ("meta", "KEY=VALUE", "an entry of the model's metadata; an empty value takes it away"),
)


class _Edit(argparse.Action):
    """Keeps edits of all kinds in one list, in the order in which they are given."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        before: Sequence[tuple[str, str]] = getattr(namespace, "edits", None) or ()
        namespace.edits = [*before, (str(option_string).removeprefix("--"), values)]


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "edit",
        help="rename, reshape, add and drop parts of a model",
        description="Edits a model. The edits are done in the order in which they are given, all of them or none.",
        epilog="examples:\n  rewriter edit net.onnx --rename data=images --rename '/^onnx::(.*)/\\1/' -o named.onnx\n"
        "  rewriter edit net.onnx --add-output op:Conv -o all.onnx\n"
        "  rewriter edit net.onnx --shape x:N,3,H,W -o dynamic.onnx\n"
        "  rewriter edit net.onnx --insert-after 'images=Mul(_, 0.0039)' --dtype images=uint8 -o bytes.onnx",
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    group = parser.add_argument_group("edits, each of which may be repeated")
    for name, metavar, described in EDITS:
        group.add_argument(f"--{name}", metavar=metavar, action=_Edit, dest="edits", help=described)
    group.add_argument("--with-children", action="store_true", help="--drop also takes out all that is computed from a node")
    add_result(parser)
    parser.set_defaults(edits=[])


def run(args: argparse.Namespace) -> int:
    """Edits a model; returns 0."""
    from rewriter.app.cli.surgery import one_result
    from rewriter.core.errors import RewriterError
    from rewriter.workbench.surgery.edit.edition import edited

    if not args.edits:
        raise RewriterError("say what is edited; `rewriter edit --help` lists the edits")
    return one_result(args, lambda source, checks: edited(source, args.edits, with_children=args.with_children, checks=checks))
