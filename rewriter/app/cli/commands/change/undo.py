"""`rewriter undo`: a result without one of the rewrites that made it."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_rule_paths
from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "undo",
        help="take a rewrite back from a result",
        description="Takes rewrites back that the record of a result names, those of its last run: the recorded rules run "
        "again without them, on what they ran on. That is made of the result where `--record full` kept what is gone; "
        "otherwise --original names it. Without FIRING the rewrites are listed.",
        epilog="examples:\n  rewriter fix net.onnx -o fixed.onnx --record full\n  rewriter undo fixed.onnx\n"
        "  rewriter undo fixed.onnx 2 -o without.onnx\n  rewriter undo fixed.onnx PT030 --original net.onnx -o without.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the result")
    parser.add_argument(
        "firings", metavar="FIRING", nargs="*", help="the number of a rewrite, or the code of a rule for all its"
    )
    parser.add_argument("--original", metavar="FILE", help="the model that was rewritten")
    parser.add_argument("--source", metavar="FILE", help="the framework's own file, where one was used")
    add_rule_paths(parser)
    add_result(parser)


def run(args: argparse.Namespace) -> int:
    """Takes rewrites back, or lists them; returns 0."""
    from pathlib import Path

    from rewriter.app.cli.output import tell
    from rewriter.app.cli.selection import load
    from rewriter.app.cli.surgery import all_opened, checks_of, deliver, limited, targets
    from rewriter.app.report.jsonreport import dumps
    from rewriter.trust.provenance.check_record import recorded_firings, undone
    from rewriter.workbench.style import clean
    from rewriter.workbench.surgery.finish import Surgery, judge

    source, *others = all_opened([text for text in (args.model, args.original) if text])
    known = load(args.rules)
    beside = {"original": others[0].file if others else None, "source": args.source and Path(args.source)}
    if args.firings:
        targets(args, [source], [args.output])
    with limited(args):
        if not args.firings:
            found = recorded_firings(source.file, known, **beside)
            if args.format == "json":
                told = [{"number": one.number, "rule": one.rule, "place": one.place, "root": one.root} for one in found]
                print(dumps({"schema": 1, "command": "undo", "input": source.name, "firings": told}))
            for one in found if args.format != "json" else ():
                where = "" if one.place == "main" else f" in {one.place}"
                tell(clean(f"{one.number:>4}  {one.rule}  {one.root} ({one.op}){where}"))
            return 0
        done = undone(source.file, args.firings, known, **beside, stamp=args.stamp)
        did = [f"undone  {one.number}  {one.rule}  {one.root} ({one.op})" for one in done.gone]
        notes = [f"{one.rule} fires at {one.root!r} instead" for one in done.new]
        notes += judge(done.model, lambda: [done.before()], runtime=checks_of(args).runtime != "no")[1]
        return deliver(args, "undo", source, Surgery(done.model, did, notes), args.output)
