"""`--sandbox`: the whole command runs again within bubblewrap, which shows it the files that its options name and no others.

This process reads no model. It works out what the command may read and write, starts it, passes on what it prints, and puts
reports and the result of `-o` where they belong: their folders, in which other files lie, are not opened to the models.
"""

from __future__ import annotations

import argparse
import os
import re
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO

from rewriter.app.batch.bubblewrap import Sandbox
from rewriter.app.batch.urls import STDOUT, is_remote, is_url
from rewriter.app.cli.console_report import report_in, result_in
from rewriter.app.cli.output import check_stdout, say
from rewriter.core.errors import RewriterError, reason
from rewriter.workbench.style import clean

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2
"""Signals that are passed on; with one more the sandbox is killed."""


def run(args: argparse.Namespace, given: Sequence[str]) -> int:
    """Runs a command in the sandbox; returns its exit code.

    Args:
        args: its options.
        given: the command line.

    Raises:
        RewriterError: there is no sandbox here, or the command needs what it does not have.
    """
    from rewriter.core.onnxfile.temporary import temporary_folder

    program = _bwrap()
    _refuse(args)
    with temporary_folder() as staging, _results(args) as writable:
        sandbox = Sandbox(program, _readable(args), [*writable, str(staging)])
        code = _Inside(sandbox, _command_line(args, given), staging).run()
        _deliver(args, staging)
    return code


def _bwrap() -> str:
    if sys.platform != "linux":
        raise RewriterError("--sandbox needs bubblewrap, which only Linux has; use a container without network")
    found = shutil.which("bwrap")
    if found is None:
        raise RewriterError("--sandbox needs bwrap, which is not installed; install it with: apt install bubblewrap")
    return found


def _refuse(args: argparse.Namespace) -> None:
    """Refuses what needs the network, or would be written where models are read."""
    from rewriter.core.onnxfile.write import check_target

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
        raise RewriterError(f"--sandbox keeps the models' folder as it is; --out {out} is one, so name another folder")
    if output == STDOUT:
        check_stdout()
    files = [(path, True) for path in args.report]
    files += [] if output in (None, STDOUT) else [(output, args.force or args.skip_existing)]
    for path, force in files:
        if Path(path).parent.exists():
            check_target(Path(path), force)


def _readable(args: argparse.Namespace) -> list[str]:
    """Files and folders that the options name to be read."""
    found, configuration = _model_folders(args), args.configuration
    for text in args.rules or ():
        found += map(str, _rule_places(text))
    tables = [] if configuration is None else [table.values.get("source") for table in configuration.per_path]
    found += [one for one in (args.source, *(table.value for table in tables if table)) if one not in ("auto", "none")]
    found += [configuration.path] if configuration is not None else []
    found += [args.inputs] if getattr(args, "inputs", None) else []
    if (template := getattr(args, "expect", None)) and not template.startswith("{dir}"):
        before, variable, _ = template.partition("{")
        found.append((os.path.dirname(before) or ".") if variable else template)
    if getattr(args, "skip_existing", False) and args.output:
        found.append(args.output)
    return list(map(str, found))


def _model_folders(args: argparse.Namespace) -> list[str]:
    """The folders of the models, in which their data and the framework's own files are, too."""
    return [path if os.path.isdir(path) else os.path.dirname(path) or "." for path in map(_without_slash, args.paths)]


def _without_slash(path: str) -> str:
    return path.rstrip("/") or path


def _rule_places(text: str) -> Sequence[Path | str]:
    from rewriter.app.config.configuration import PACK, SHIPPED
    from rewriter.rule_tools.packs import pack_folder

    if text.startswith(PACK):
        return [pack_folder(text.removeprefix(PACK))]
    return [] if text == SHIPPED else [text]


@contextmanager
def _results(args: argparse.Namespace) -> Iterator[list[str]]:
    """The folder of results and its journal, for the sandbox to write: it can make no others. What stays empty is removed."""
    if getattr(args, "out", None) is None:
        yield []
        return
    from rewriter.app.cli.resumed import journal_of
    from rewriter.core.onnxfile.write import make_folder

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
                os.rmdir(args.out)  # which the system refuses if something is in it


def _command_line(args: argparse.Namespace, given: Sequence[str]) -> list[str]:
    """The command line, with the configuration that was found: in the sandbox there are no folders to look for one."""
    place = list(given).index(args.command) + 1
    found = [] if args.configuration is None else ["--config", str(args.configuration.path)]
    settled = args.config is not None or args.no_config
    return [*given[:place], *([] if settled else found or ["--no-config"]), *given[place:]]


def _deliver(args: argparse.Namespace, staging: Path) -> None:
    """Puts the result of `-o` and the reports where they belong. The sandbox is gone, and nothing in this folder changes."""
    from rewriter.core.onnxfile.temporary import ENDING

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
    """Copies what the sandbox wrote, if that is a file."""
    from rewriter.core.onnxfile.write import make_folder, transfer, write_file

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


class _Inside:
    """A command that runs in a sandbox, which has no terminal and no standard input."""

    def __init__(self, sandbox: Sandbox, given: Sequence[str], staging: Path) -> None:
        self._sandbox = sandbox
        no_core = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"  # a crash leaves no image of the memory
        self._code = f"{no_core}; from rewriter.app.cli.main import entry; entry({str(staging)!r})"
        self._given = given
        self._status = ""
        self._signals: list[int] = []

    def run(self) -> int:
        """Waits for it, and passes on what it prints and the signals that come; returns its exit code."""
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        try:
            with self._started(writer) as self._process, self._forwarded():
                try:
                    self._relay()
                finally:
                    if sys.exc_info()[0] is not None:
                        self._process.kill()
            return self._ending(self._process.returncode)
        finally:
            os.close(self._reader)

    def _started(self, writer: int) -> subprocess.Popen[bytes]:
        command = self._sandbox.command([*self._sandbox.python(self._code), *self._given], writer)
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            return subprocess.Popen(command, env=self._sandbox.environment, pass_fds=[writer], **pipes)
        finally:
            os.close(writer)

    def _relay(self) -> None:
        with selectors.DefaultSelector() as waiting:
            for pipe, stream in ((self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr)):
                assert pipe is not None
                waiting.register(pipe, selectors.EVENT_READ, _Printer(stream))
            while waiting.get_map():
                for key, _ in waiting.select():
                    pipe = key.fileobj  # type: ignore[assignment]
                    assert pipe is not None
                    try:
                        is_open = key.data.print(os.read(key.fd, 1 << 16))
                    except BrokenPipeError:  # the reader (`| head`) has gone, which the command is to learn
                        is_open = False
                    if not is_open:
                        waiting.unregister(pipe)
                        pipe.close()

    @contextmanager
    def _forwarded(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
        for number in before:
            signal.signal(number, lambda number, frame: self._forward(number))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _forward(self, number: int) -> None:
        """Has the command end as it does without a sandbox: in a session of its own it hears of no Ctrl-C."""
        self._signals.append(number)
        try:
            first = int(self._told("child-pid") or "")
            inner = int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])
            if len(self._signals) > _PATIENCE:
                raise ValueError
            os.kill(inner, number)
        except (OSError, ValueError, IndexError):
            self._process.kill()

    def _told(self, name: str) -> str | None:
        """What bwrap said of the sandbox."""
        with suppress(BlockingIOError):
            while part := os.read(self._reader, 1 << 12):
                self._status += part.decode()
        found = re.search(rf'"{name}": *(\d+)', self._status)
        return None if found is None else found[1]

    def _ending(self, code: int) -> int:
        if self._told("exit-code") is not None:
            if code > 128 and code - 128 in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGXCPU):
                say(f"rewriter: error: the command was killed in the sandbox ({signal.Signals(code - 128).name})")
            return code
        if self._signals:
            say("interrupted")
            return 128 + self._signals[-1]
        raise RewriterError("--sandbox: bwrap cannot make one here, as it says above; use a container without network")


class _Printer:
    """Prints what comes from the sandbox. On a terminal that is text: whoever took the command over must not steer it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = b""

    def print(self, data: bytes) -> bool:
        """Prints a part, which is empty at the end; whether there is more to come."""
        self._stream.flush()
        out: IO[bytes] = self._stream.buffer
        if self._stream.isatty():
            *lines, self._line = (self._line + data).split(b"\n") if data else (self._line, b"")
            ends = "\n" if data else ""
            data_shown = "".join(clean(line.decode("utf-8", "backslashreplace")) + ends for line in lines).encode()
        else:
            data_shown = data
        out.write(data_shown)
        out.flush()
        return bool(data)
