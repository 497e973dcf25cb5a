"""`rewriter merge`: several models as one."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "merge",
        help="make one model of several",
        description="Makes one model of several. An input gets what an output of the same name of a model before gives, or "
        "what --map says; if there is no such name, each model's only output becomes the only input of the next. Equal "
        "initializers and functions are kept once, and inner names that clash change. Operator sets and IR versions are "
        "aligned where no node means something else by that.",
        epilog="examples:\n  rewriter merge preprocess.onnx net.onnx --map resized=images -o whole.onnx\n"
        "  rewriter merge left.onnx right.onnx --beside --share image --prefix l_,r_ -o both.onnx",
    )
    parser.add_argument("models", metavar="MODEL", nargs="+", help="the models, in the order in which they run")
    how = parser.add_argument_group("how they are connected")
    how.add_argument(
        "--map",
        metavar="OUT=IN",
        action="append",
        default=[],
        help="an output of a model and the input of a later one that it becomes; a.out=b.in, by the names of the files, where "
        "out=in fits several; may be repeated",
    )
    how.add_argument("--beside", action="store_true", help="connect nothing but what --map says")
    how.add_argument(
        "--share", metavar="NAME,...", action="append", default=[], help="make one of inputs of one name; patterns with *"
    )
    how.add_argument("--prefix", metavar="A,B,...", help="what the names of each model are to begin with; one may be empty")
    how.add_argument("--inputs", metavar="T,...", action="append", help="the order of the inputs; what is not named comes last")
    how.add_argument(
        "--outputs",
        metavar="T,...",
        action="append",
        help="which outputs remain, in their order (default: all that are not mapped)",
    )
    add_result(parser)


def run(args: argparse.Namespace) -> int:
    """Merges models; returns 0."""
    from rewriter.app.cli.surgery import all_opened, checks_of, deliver, limited, targets
    from rewriter.workbench.surgery.merge.merging import Plan, merged

    sources = all_opened(args.models)
    targets(args, sources, [args.output])
    prefixes = args.prefix.split(",") if args.prefix is not None else ()
    plan = Plan(args.map, prefixes, args.share, args.beside, args.inputs, args.outputs)
    with limited(args):
        return deliver(args, "merge", sources[0], merged(sources, plan, checks_of(args)), args.output)
