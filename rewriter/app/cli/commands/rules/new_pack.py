"""`rewriter new-pack`: a package of rules to begin with."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "new-pack",
        help="begin a package of rules",
        description="Writes a folder with a package that pip installs and whose rules are then known as pack:NAME: an example "
        "of a rule, its tests and what `verify` found, a test of the whole, and a workflow for CI.",
        epilog="example: rewriter new-pack my-company",
    )
    parser.add_argument("name", metavar="NAME", help="small letters, digits and hyphens; pip knows it as NAME-rules")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="the folder to make (default: NAME-rules)")


def run(args: argparse.Namespace) -> int:
    """Writes the pack; returns 0."""
    from pathlib import Path

    from rewriter.app.cli.output import say, tell
    from rewriter.app.cli.program import make_parser
    from rewriter.trust.proof.onnx_runtime import installed
    from rewriter.workbench.authoring.new_pack import named, write_pack
    from rewriter.workbench.style import clean

    pack = named(args.name)
    folder = Path(args.output or pack.distribution)
    for path in write_pack(pack, folder):
        tell(clean(str(path)))
    rules = str(folder / pack.rules)
    if installed():
        verify = make_parser(["verify"]).read(["verify", rules, "--update-lock", "--samples", "60"])
        verify.run(verify)
    else:
        say(f"the rules are not verified without ONNX Runtime; with it: rewriter verify {clean(rules)} --update-lock")
    say(f"install it with: pip install -e {clean(str(folder))}; then: rewriter fix MODEL --extend pack:{pack.name}")
    return 0
