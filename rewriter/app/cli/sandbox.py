"""`--sandbox`: the whole command runs again in bubblewrap, with access to the files that its options name only.

This process reads no model. It determines the files that the command may read and write, starts it, passes on its output, and
moves reports and the result of `-o` to their places: their folders, which have other files, are not opened to the models.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rewriter.app.batch.bubblewrap import Sandbox, SandboxedProcess
from rewriter.app.batch.result_folder import journal_of, report_in, result_in
from rewriter.app.batch.work import STDOUT, is_remote, is_url
from rewriter.app.cli.output import check_stdout
from rewriter.app.configuration import rule_paths
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError, reason
from rewriter.core.onnxfile.files import ENDING, check_target, make_folder, temporary_folder, transfer, write_file


def run(args: argparse.Namespace, words: Sequence[str]) -> int:
    """Runs a command in the sandbox; returns its exit code.

    Args:
        args: its options.
        words: the command line.

    Raises:
        RewriterError: there is no sandbox here, or the command needs something that the sandbox lacks.
    """
    program = _bwrap()
    _check_options(args)
    with temporary_folder() as staging, _results(args) as writable:
        sandbox = Sandbox(program, _readable(args), [*writable, str(staging)])
        start = f"from rewriter.app.cli.main import entry; entry({str(staging)!r})"
        code = SandboxedProcess(sandbox, start, _command_line(args, words)).run()
        _deliver(args, staging)
    return code


def _bwrap() -> str:
    if sys.platform != "linux":
        raise RewriterError("--sandbox needs bubblewrap, which only Linux has; use a container without network")
    found = shutil.which("bwrap")
    if found is None:
        raise RewriterError("--sandbox needs bwrap, which is not installed; install it with: apt install bubblewrap")
    return found


def _check_options(args: argparse.Namespace) -> None:
    """Rejects options that need the network, and results in a folder from which models are read."""
    if args.scheduler is not None:
        raise RewriterError("--sandbox is for work on this machine, which --scheduler is not")
    out, output = getattr(args, "out", None), getattr(args, "output", None)
    if any(map(is_remote, args.paths)) or any(map(is_url, (out, output, *args.report))):
        raise RewriterError("--sandbox has no network and no standard input; name files of this machine")
    for path in map(_without_slash, args.paths):
        folder, real = os.path.realpath(os.path.dirname(path)), os.path.realpath(path)
        if os.path.islink(path) and not real.startswith(f"{folder.rstrip('/')}/"):
            raise RewriterError(f"--sandbox: {path} is a symbolic link out of its folder; name {real} instead")
    if "out" in args and (args.in_place or not (out or output)):
        raise RewriterError(
            "--sandbox keeps the models' folder as it is; name a folder for results with --out, or a file with -o"
        )
    if out is not None and os.path.realpath(out) in map(os.path.realpath, _model_folders(args)):
        raise RewriterError(f"--sandbox keeps the models' folder as it is; --out {out} has models; name another folder")
    if output == STDOUT:
        check_stdout()
    files = [(path, True) for path in args.report]
    files += [] if output in (None, STDOUT) else [(output, args.force or args.skip_existing)]
    for path, force in files:
        if Path(path).parent.exists():
            check_target(Path(path), force)


def _readable(args: argparse.Namespace) -> list[str]:
    """Files and folders that the options name for reading."""
    configuration = args.configuration
    found: list[Path | str] = [*_model_folders(args), *(rule_paths(args.rules) or ())]
    sources = [table.settings["source"].value for table in configuration.per_path if "source" in table.settings]
    found += [one for one in (args.source, *sources) if one not in ("auto", "none")]
    found += [configuration.path] if configuration.path is not None else []
    found += [args.inputs] if getattr(args, "inputs", None) else []
    if (template := getattr(args, "expect", None)) and not template.startswith("{dir}"):
        before, variable, _ = template.partition("{")
        found.append((os.path.dirname(before) or ".") if variable else template)
    if getattr(args, "skip_existing", False) and args.output:
        found.append(args.output)
    for folder in getattr(args, "consumer_env", None) or ():
        found += [folder, *_python_of(folder)]
    return list(map(str, found))


def _python_of(environment: str) -> list[str]:
    """The installation of Python to which an environment links. It has the standard library."""
    python = Path(environment, "bin", "python").resolve()
    return [str(python.parent.parent)] if python.exists() else []


def _model_folders(args: argparse.Namespace) -> list[str]:
    """The folders of the models, which also have their data and the framework's own files."""
    return [path if os.path.isdir(path) else os.path.dirname(path) or "." for path in map(_without_slash, args.paths)]


def _without_slash(path: str) -> str:
    return path.rstrip("/") or path


@contextmanager
def _results(args: argparse.Namespace) -> Iterator[list[str]]:
    """The folder of results and its journal, which the sandbox may write. It can make no others. An empty folder is removed."""
    if getattr(args, "out", None) is None:
        yield []
        return
    journal = journal_of(Path(args.out)) if args.journal is None else Path(args.journal)
    is_new_folder, is_new_journal = not os.path.lexists(args.out), not os.path.lexists(journal)
    for folder in (args.out, journal.parent):
        make_folder(folder)
    try:
        if is_new_journal:
            os.close(os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield [args.out, str(journal)]
    except OSError as error:
        raise RewriterError(f"{journal}: {reason(error)}") from None
    finally:
        with suppress(OSError):
            if is_new_journal and not os.path.getsize(journal):
                os.unlink(journal)
            if is_new_folder:
                os.rmdir(args.out)  # which fails if something is in it


def _command_line(args: argparse.Namespace, words: Sequence[str]) -> list[str]:
    """The command line, with the path of the configuration: the sandbox lacks the folders in which it would be searched."""
    place = list(words).index(args.command) + 1
    found = [] if args.configuration.path is None else ["--config", str(args.configuration.path)]
    settled = args.config is not None or args.no_config
    return [*words[:place], *([] if settled else found or ["--no-config"]), *words[place:]]


def _deliver(args: argparse.Namespace, staging: Path) -> None:
    """Moves the result of `-o` and the reports to their places. The sandbox has ended, so this folder no longer changes."""
    places = {report_in(staging, number): (path, True) for number, path in enumerate(args.report)}
    if getattr(args, "output", None) not in (None, STDOUT):
        places[result_in(staging)] = args.output, args.force
    others = [name for name in sorted(os.listdir(staging)) if staging / name not in places and not name.endswith(ENDING)]
    if others:
        raise RewriterError(f"--sandbox: the result has data in other files ({clean(others[0])}); use --out instead of -o")
    for staged, (target, force) in places.items():
        if os.path.lexists(staged):
            _put(staged, target, force)


def _put(staged: Path, target: str, force: bool) -> None:
    """Copies the output of the sandbox, if it is a file."""
    try:
        descriptor = os.open(staged, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise RewriterError(f"--sandbox: {target} is not written: {reason(error)}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise RewriterError(f"--sandbox: {target} is not written: not a regular file")
        make_folder(os.path.dirname(target) or ".")
        write_file(Path(target), lambda file: transfer(descriptor, 0, found.st_size, file), force)
    finally:
        os.close(descriptor)
