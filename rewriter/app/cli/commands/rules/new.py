"""`rewriter new`: a rule file begun from what stands around a node of a model."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_limits, add_rule_paths, add_runtime


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "new",
        help="begin a rule from a part of a model",
        description="Writes a rule file with a pattern of the nodes around one node of a model, a header, and tests with that "
        "part of the model, its weights made small. It compiles; comments say what is to be filled in.",
        epilog="example: rewriter new MY001 --from net.onnx --around /MaxPool -o my_rules/MY001_pool.rules",
    )
    parser.add_argument("code", metavar="CODE", help="of the new rule: capital letters and a number, as MY001")
    parser.add_argument("--from", dest="model", metavar="MODEL", required=True, help="the model")
    parser.add_argument("--around", metavar="NODE", required=True, help="the node: its name, or that of a tensor that it makes")
    parser.add_argument(
        "--depth", metavar="N", type=_steps, default=1, help="how many steps away from it nodes are taken (default: 1)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the rule file (default: it is printed)")
    add_rule_paths(parser)
    add_runtime(parser, "is asked if it refuses the part, where it is installed")
    add_limits(parser, "the command", whole=600)


def _steps(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 100):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps, 0 to 100")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Writes the file; returns 0."""
    from pathlib import Path

    from rewriter.app.cli.options import runtime_choice
    from rewriter.app.cli.output import say, tell
    from rewriter.app.cli.selection import load
    from rewriter.app.cli.surgery import opened
    from rewriter.core.onnxfile.write import check_target, write_all, write_file
    from rewriter.workbench.authoring.new_rule import new_rule
    from rewriter.workbench.style import clean

    target = None if args.output is None else Path(args.output)
    if target is not None:
        check_target(target, force=False)
    source = opened(args.model)
    text = new_rule(
        source.read(),
        args.code.upper(),
        args.around,
        depth=args.depth,
        rules=load(args.rules),
        origin=source.name,
        runtime=runtime_choice(args.runtime) != "no",
    )
    if target is None:
        print(text, end="")
        return 0
    write_file(target, lambda descriptor: write_all(descriptor, text.encode()), force=False)
    tell(f"{clean(str(target))}: {args.code.upper()}")
    say("answer what is marked FILL IN, then run: rewriter test " + clean(str(target)))
    return 0
