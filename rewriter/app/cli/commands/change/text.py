"""`rewriter text`: a model as text, and back."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_limits


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "text",
        help="turn a model into text (ONNX's own, JSON, protobuf's), and back",
        description="Turns a model from one form into another, as the endings of the files say: .onnx; .onnxtxt, ONNX's own "
        "text, with weights in FILE.data beside it and in FILE.rest.json what the text cannot say; .json; .textproto. Back and "
        "forth gives the same model. Without -o the text is printed, of weights their SHA-256.",
        epilog="examples:\n  rewriter text net.onnx\n  rewriter text net.onnx -o net.onnxtxt\n"
        "  rewriter text net.onnxtxt -o edited.onnx\n  rewriter text net.onnx --as json",
    )
    parser.add_argument("model", metavar="MODEL", help="the model, in any of the forms")
    parser.add_argument("-o", "--output", metavar="FILE", help="the result; - is standard output (default)")
    parser.add_argument(
        "--as",
        dest="form",
        choices=("onnxtxt", "json", "textproto", "onnx"),
        help="the form of the result, where its ending does not say it (default: onnxtxt)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    add_limits(parser, "the whole command", "600")


def run(args: argparse.Namespace) -> int:
    """Turns one model into another form; returns 0."""
    import sys
    from pathlib import Path

    from rewriter.app.batch.urls import is_remote
    from rewriter.app.cli.output import say, tell
    from rewriter.app.cli.surgery import STDOUT, limited, opened
    from rewriter.core.errors import RewriterError
    from rewriter.workbench.style import clean
    from rewriter.workbench.surgery.text import file_forms as forms

    printed = args.output in (None, STDOUT)
    if not printed and is_remote(args.output):
        raise RewriterError("-o names a file of this machine")
    form = args.form or (forms.TEXT if printed else forms.form_of(Path(args.output)))
    if form is None:
        raise RewriterError(f"the ending of {args.output} says no form; say it with --as")
    if printed and form == forms.BINARY:
        raise RewriterError("a model in its binary form is written to a file; say which with -o FILE")
    source = opened(args.model)
    with limited(args):
        model, notes = forms.read_form(source.file)
        if printed:
            sys.stdout.write(forms.shown(model, form).rstrip("\n") + "\n")
        else:
            target = Path(args.output)
            if target.exists() and target.samefile(source.file):
                raise RewriterError(f"{args.output} is the input itself; write the result elsewhere")
            files = forms.write_form(model, target, form, force=args.force)
            tell(f"{clean(source.name)} -> {', '.join(clean(str(file)) for file in files)}")
    for note in notes:
        say(f"note: {note}")
    return 0
