"""`rewriter split`: a model as several that run one after the other."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_rule_paths, count, size
from rewriter.app.cli.surgery import add_result

if TYPE_CHECKING:
    from rewriter.core.language.rules import RuleSet


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "split",
        help="make several models of one, which run one after the other",
        description="Splits a model into parts that run one after the other. What a part reads of those before it becomes an "
        "input of it and an output of theirs. Constants are in each part that reads them.",
        epilog="examples:\n  rewriter split net.onnx --at features -o 'net.{}.onnx'\n"
        "  rewriter split net.onnx --at 'p3,p4,p5' --at scores --dry-run\n"
        "  rewriter split net.onnx --rule MY001 --rules heads.rules -o 'part{}.onnx'\n"
        "  rewriter split net.onnx --max-size 1G -o 'part{}.onnx'",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    where = parser.add_argument_group("where it is split")
    where = where.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--at", metavar="T,...", action="append", help="after these tensors or nodes, all at once; repeated for further cuts"
    )
    where.add_argument(
        "--rule",
        metavar="CODES",
        action="append",
        help="before each place where one of these rules would fire, in the order of computation",
    )
    where.add_argument("--every", metavar="N", type=count, help="after each N nodes, in the order of computation")
    where.add_argument("--max-size", metavar="SIZE", type=size, help="so that no part has more bytes of weights, as 512M or 2G")
    parser.add_argument(
        "--type", metavar="NAME:TYPE", action="append", default=[], help="the type of a tensor between the parts, if need be"
    )
    add_rule_paths(parser)
    add_result(parser, "the results; {} stands for the number of a part, as part{}.onnx")


def run(args: argparse.Namespace) -> int:
    """Splits a model; returns 0."""
    import sys
    from shlex import join

    from rewriter.app.batch.urls import is_remote
    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.surgery import checks_of, limited, opened, targets
    from rewriter.app.report.jsonreport import dumps
    from rewriter.core.errors import RewriterError
    from rewriter.workbench.style import clean
    from rewriter.workbench.surgery.cut.split import Cuts, files_of, split, write_parts

    if args.diff:
        raise RewriterError("--diff compares one result with its input; a split has several")
    if is_remote(args.output):
        raise RewriterError("a split writes several files; -o names them, as part{}.onnx")
    source = opened(args.model)
    targets(args, [source], [] if args.output is None else [str(files_of(args.output, 1)[0])])
    with limited(args):
        done = split(
            source, Cuts(args.at or (), every=args.every, max_size=args.max_size), args.type, checks_of(args), _rules(args)
        )
        written = []
        if not args.dry_run:
            files = files_of(args.output, len(done.parts))
            targets(args, [source], list(map(str, files)))
            written = write_parts(done.parts, files, force=args.force)
    if args.format == "json":
        found = {"plan": done.plan, "notes": done.notes, "same": done.same, "joined": done.joined}
        head = {"schema": 1, "command": "split", "input": source.name}
        print(dumps({**head, **found, "output": list(map(str, written))}))
        return 0
    style = style_of(sys.stdout)
    where = f" -> {clean(args.output)}" if written else " (dry run)"
    tell(f"{style.paint('bold', clean(source.name))}{where}")
    for line in done.plan:
        tell(f"  {clean(line)}")
    if done.same:
        tell("  the parts run, and give what the whole gives")
    if done.joined:
        tell(f"  `rewriter merge` joins them again with {clean(join(done.joined))}")
    for note in done.notes:
        tell(f"  {style.paint('dim', 'note')}: {clean(note)}")
    return 0


def _rules(args: argparse.Namespace) -> RuleSet | None:
    from rewriter.app.cli.selection import codes, load
    from rewriter.core.errors import RewriterError

    if args.rules and not args.rule:
        raise RewriterError("--rules says where rules are; say with --rule which of them mark the cuts")
    return load(args.rules).select(codes(args.rule), []) if args.rule else None
