"""The entry point: reads the command line, runs one command, and turns every ending into an exit code.

    0  done; nothing found
    1  findings (check, test, fmt --check), or something could not be repaired
    2  bad input, rule or option
    3  internal error

Nothing heavy is imported here or by the modules that declare options: `rewriter --help` must not wait for onnx.
"""

from __future__ import annotations

import argparse
import atexit
import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NoReturn

from rewriter.app.cli.output import print_message, wants_color
from rewriter.app.cli.program import COMMANDS, make_parser
from rewriter.core.errors import RewriterError, reason
from rewriter.workbench.style import clean

OK, FINDINGS, BAD_INPUT, INTERNAL = 0, 1, 2, 3
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO)
"""Errors of a write to stdout: the disk is full or broken."""
OBJECTS = 50_000
"""New objects after which the garbage collector runs. With Python's 700, start-up walks a hundred times over modules, which are
never freed.
"""


def main(argv: Sequence[str] | None = None, staging: str | None = None) -> int:
    """Runs one command and returns its exit code. It raises nothing; only `--help` and `--version` exit by themselves.

    `staging` is the folder in which the command leaves its files if it runs in the sandbox.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name may hold what the terminal's encoding cannot show
    words = sys.argv[1:] if argv is None else argv
    if not words:
        make_parser().print_help(sys.stderr)
        return BAD_INPUT
    args = make_parser(words[:1] if words and words[0] in COMMANDS else COMMANDS).read(words)
    try:
        with _within_limits(args):
            code = OK if _settled(args) else _run(args, words, staging)
        sys.stdout.flush()
        return code
    except RewriterError as error:
        print_message(_shown(error))
        return BAD_INPUT
    except MemoryError:
        print_message("rewriter: error: out of memory: the command needs more than three quarters of the machine's memory")
        return BAD_INPUT
    except KeyboardInterrupt as error:
        print("terminated" if isinstance(error, _Terminated) else "interrupted", file=sys.stderr)
        return TERMINATED if isinstance(error, _Terminated) else INTERRUPTED
    except BrokenPipeError:  # the reader (`| head`) has gone
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in _FULL:
            return _internal(error, debug=args.debug or bool(os.environ.get("REWRITER_DEBUG")))
        _drop_output()
        print_message(f"rewriter: error: the results cannot be printed: {reason(error)}")
        return BAD_INPUT
    except Exception as error:
        return _internal(error, debug=args.debug or bool(os.environ.get("REWRITER_DEBUG")))


def _run(args: argparse.Namespace, words: Sequence[str], staging: str | None) -> int:
    """Runs the command; with `--sandbox`, in another process."""
    args.staging = staging
    if staging is None and getattr(args, "sandbox", False):
        from rewriter.app.cli.sandbox import run

        return run(args, words)
    return int(args.run(args))


def _within_limits(args: argparse.Namespace) -> AbstractContextManager[None]:
    """The limits of a command that reads models one at a time: a model of a few bytes may need unlimited time and memory."""
    if "limited" not in args:
        return nullcontext()
    from rewriter.app.cli.options import limits_of
    from rewriter.core.isolation.budget import allowed, within_limits

    limits = limits_of(args)
    arguments = [getattr(args, name, None) for name in ("model", "other", "before", "after", "input", "output", "plan")]
    files = [one for one in arguments if isinstance(one, str)]
    seconds = limits["seconds"] + sum(allowed(one, 0.0) for one in files)
    return within_limits(seconds, limits["memory"], files[0] if files else "")


def _settled(args: argparse.Namespace) -> bool:
    """Applies the configuration, for commands that have one. Returns whether the call only shows the settings."""
    shown = False
    if "no_config" in args:
        from rewriter.app.cli.settings import settle

        shown = settle(args)
    origins = getattr(args, "origins", {})
    typed = [one for name in ("rules", "extend") if origins.get(name, "").startswith("--") for one in getattr(args, name)]
    args.named_files = [one for one in typed if one.endswith(".rules") and os.path.isfile(one)]
    if getattr(args, "extend", None):
        args.rules = [*(args.rules or ["shipped"]), *args.extend]
    return shown


def entry(staging: str | None = None) -> NoReturn:
    """The console script: a process that runs one command, and starts and ends quickly. `staging` is passed to `main`."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy takes 70 ms to start more, and no code here uses them
    gc.set_threshold(OBJECTS)
    if "_ARGCOMPLETE" in os.environ:
        from rewriter.app.cli.completion import complete

        parser = make_parser()
        complete(parser, parser.commands.choices.values())
    _keep_stdout()
    _end_cleanly()
    code = main(staging=staging)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)  # Python would clear all modules first: 25 ms if ONNX is imported


class _Terminated(KeyboardInterrupt):
    """SIGTERM came. Its default action would leave temporary files behind."""


def _end_cleanly() -> None:
    """Makes SIGTERM end the command as Ctrl-C does."""
    if hasattr(signal, "SIGTERM") and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    raise _Terminated


def _keep_stdout() -> None:
    """Keeps standard output for results: output of libraries, such as warnings of ONNX, goes to stderr."""
    with suppress(OSError, ValueError, AttributeError):
        if sys.stdout.fileno() == 1:
            kept = os.dup(1)
            os.dup2(2, 1)
            sys.stdout = os.fdopen(kept, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def _shown(error: RewriterError) -> str:
    """One line; for errors in rule files, the source lines that the compiler marks."""
    render = getattr(error, "render", None)
    if render is not None:
        return str(render(wants_color(sys.stderr)))
    from rewriter.app.batch.work import with_names

    return f"rewriter: error: {clean(with_names(str(error)))}"


def _drop_output() -> None:
    """Drops the buffer of stdout, so that it does not raise again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal(error: Exception, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    kind = type(error).__name__
    hint = "" if debug else " (--debug shows the traceback)"
    print_message(f"rewriter: internal error: {kind}: {clean(str(error))}; please report it{hint}")
    return INTERNAL
