"""`rewriter reduce`: the smallest model that still shows something, for a bug report or a test."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_rule_paths
from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "reduce",
        help="make the smallest model that still shows something",
        description="Leaves out nodes, outputs, weights and declarations as long as the model still shows what --keep says, "
        "and makes dimensions smaller. Whoever takes the model takes the small one, too. Without --keep all nodes stay; only "
        "weights become smaller and texts go, as long as the same rules fire at the same nodes and the same tools refuse the "
        "model: a way to share a model without its weights.",
        epilog="examples:\n  rewriter reduce net.onnx --keep 'refused: incorrect size' -o small.onnx\n"
        "  rewriter reduce net.onnx --keep 'rule: PT030' -o small.onnx\n"
        "  rewriter reduce net.onnx -o without-weights.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument(
        "--keep",
        metavar="WHAT",
        action="append",
        default=[],
        help='"refused: TEXT", words with which a checker or ONNX Runtime refuses to check, load or run it, or "rule: CODE", a '
        "rule that fires; may be repeated",
    )
    add_rule_paths(parser)
    parser.add_argument(
        "--source", metavar="FILE", default="auto", help="the framework's own file, `none`, or `auto` (default), as for `fix`"
    )
    add_result(parser)


def run(args: argparse.Namespace) -> int:
    """Reduces a model; returns 0."""
    from rewriter.app.batch.sources import source_of
    from rewriter.app.cli.selection import load
    from rewriter.app.cli.surgery import SECONDS, checks_of, deliver, limited, opened, targets
    from rewriter.workbench.surgery.reduce.reduction import reduced

    source = opened(args.model)
    targets(args, [source], [args.output])
    rules = load(args.rules)
    with limited(args):
        framework = source_of(source.read(), str(source.file), args.source)[0]
        done = reduced(
            source, args.keep, rules, framework=framework, seconds=args.time_limit or SECONDS, checks=checks_of(args)
        )
        return deliver(args, "reduce", source, done, args.output)
