"""`-o -`: the result of a single model goes to standard output, and everything that is said about it to stderr."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from rewriter.batch.work import Job
from rewriter.errors import RewriterError
from rewriter.record import replace


def run_to_stdout(jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """Does the job and writes its result to standard output; returns the exit code.

    Raises:
        RewriterError: that is a terminal or busy, or the result does not fit into one file.
    """
    from rewriter.cli.batch import run_batch

    if sys.stdout.isatty():
        raise RewriterError("-o - writes the model to standard output, which is a terminal; redirect it to a file")
    if args.format != "text":
        raise RewriterError(f"-o - and --format {args.format} would both write to standard output; use --report")
    stdout: BinaryIO = sys.stdout.buffer
    with tempfile.TemporaryDirectory() as folder:
        name = Path(folder) / "model.onnx"
        with contextlib.redirect_stdout(sys.stderr):
            code = run_batch("fix", [replace(job, target=str(name)) for job in jobs], args)
        written = os.listdir(folder)
        if len(written) > 1:
            raise RewriterError("the model keeps weights in other files, which cannot go to standard output; use -o FILE")
        if written:
            stdout.write(name.read_bytes())
            stdout.flush()
    return code
