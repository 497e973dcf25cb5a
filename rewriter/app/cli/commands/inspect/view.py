"""`rewriter view`: a page that shows a whole model, or two side by side."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_configuration, add_limits, add_what_is_known, add_which_rules

if TYPE_CHECKING:
    from rewriter.workbench.inspect.viewed_graph import NodeNote
    from rewriter.workbench.surgery.opened import Opened


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "view",
        help="write a page to look at a model, or at two side by side",
        description="Writes one HTML file that shows a model: modules folded, nodes to search and to follow, the places where "
        "rules would fire, and the nodes that rules have changed. Of two models it also shows what differs. The file holds "
        "everything it needs and makes no request; of weights it has those of up to eight values.",
        epilog="examples:\n  rewriter view net.onnx -o net.html\n  rewriter view net.onnx net.fixed.onnx --open",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("other", metavar="B", nargs="?", help="a second model, compared with the first")
    parser.add_argument("-o", "--output", metavar="FILE", help="the page (default: NAME.html beside the model)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_which_rules(parser)
    add_what_is_known(parser)
    add_configuration(parser)
    add_limits(parser, "the page", whole=600)


def run(args: argparse.Namespace) -> int:
    """Writes the page; returns 0."""
    from pathlib import Path

    from rewriter.app.batch.urls import is_remote
    from rewriter.app.cli.output import say
    from rewriter.app.cli.surgery import all_opened
    from rewriter.app.report.summary_lines import size_text
    from rewriter.app.report.viewer.viewer_page import viewer_page
    from rewriter.core.errors import RewriterError
    from rewriter.core.onnxfile.write import check_target, write_bytes
    from rewriter.workbench.inspect.viewed_graph import notes_of_differences, viewed_model
    from rewriter.workbench.style import clean

    if args.output is None and is_remote(args.model):
        raise RewriterError(f"{args.model} is no file of this machine; say with -o where the page goes")
    target = Path(args.output) if args.output else Path(args.model).with_suffix(".html")
    check_target(target, args.force)
    sources = all_opened([text for text in (args.model, args.other) if text is not None], args.source)
    paths = [source.file for source in sources]
    if args.other is None:
        notes: list[list[NodeNote]] = [_findings(sources[0], args)]
    else:
        from rewriter.trust.diff.difference import compare_files

        notes = [list(found) for found in notes_of_differences(compare_files(*paths))]
    models = [viewed_model(path, found) for path, found in zip(paths, notes, strict=True)]
    page = viewer_page(models, " | ".join(path.name for path in paths)).encode("utf-8", "backslashreplace")
    write_bytes(target, page, force=args.force)
    say(f"{clean(str(target))}: {size_text(len(page))}")
    if args.open:
        import webbrowser

        webbrowser.open(target.absolute().as_uri())
    return 0


def _findings(source: Opened, args: argparse.Namespace) -> list[NodeNote]:
    """Where rules would fire."""
    from rewriter.app.batch.job import process
    from rewriter.app.batch.work import Job
    from rewriter.app.cli.batch import make_work
    from rewriter.app.cli.configured import vary
    from rewriter.core.errors import RewriterError
    from rewriter.core.record import replace
    from rewriter.workbench.inspect.viewed_graph import NodeNote

    work, (job,) = vary(replace(make_work("check", args), runtime="no"), [Job(str(source.file))], args)
    outcome = process(job, work)
    if outcome.error or outcome.log is None:
        raise RewriterError(outcome.error or f"{source.name}: nothing is known of it")
    return [NodeNote(one.place, one.root, "finding", one.rule, one.title) for one in outcome.log.firings]
