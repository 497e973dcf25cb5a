"""`rewriter lsp`: the language server, for editors."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "lsp",
        help="answer editors about rule files",
        description="Speaks the Language Server Protocol on standard input and output: diagnostics as one types, hover, "
        "completion, definitions, formatting, and lenses that run tests and verify rules. Editors start it by themselves. "
        "Needs rewriter[editor].",
        epilog="example: rewriter lsp --stdio",
    )
    parser.add_argument("--stdio", action="store_true", help="on standard input and output, as always; editors say it")


def run(args: argparse.Namespace) -> int:
    """Serves until the editor ends it; returns 0."""
    from importlib.util import find_spec

    from rewriter.core.errors import RewriterError, install

    if find_spec("pygls") is None:
        raise RewriterError(f"the language server needs pygls; install it with: {install('editor')}")
    from rewriter.app.editor.server import RulesServer

    RulesServer().server.start_io()
    return 0
