"""The command line of `bwrap`, and the process that it starts: a program that can read the system, Python and a few files.

`cli/sandbox.py` runs `fix`, `check` and `optimize` in it, and `tests/hostile/test_sandbox.py` runs attacks in it: a bug in
native code lets a model do to this machine what a program can do here.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import site
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, TextIO

import rewriter
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError, reason
from rewriter.core.resources import own_folder, resource

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/sys/devices/system/cpu"),
    *("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Programs, libraries, and the files in which the system lists processors and the memory of a container."""

_KERNEL = ("/proc", "/sys")
_PACKAGES = ("numpy", "onnx", "onnx_graphsurgeon", "lark", "google.protobuf", "rich", "tomli", "onnxruntime")
_VARIABLES = frozenset(
    {"LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "COLUMNS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
    | {"ORT_DISABLE_TELEMETRY", "PYTHONUTF8", "PYTHONIOENCODING", "REWRITER_DEBUG", "TZ", "XDG_CACHE_HOME"}
)
_TEMPORARY = ("/tmp", "/var/tmp", "/run/rewriter")
_MAX_LINKS = 40


class Sandbox:
    """The files that a program in the sandbox may use in addition to the system.

    Args:
        program: bwrap.
        readable: files and folders.
        writable: files and folders. A writable path in a readable folder stays writable, and the other way round.

    Attributes:
        environment: for bwrap and the program. A process in the sandbox could read the caller's other variables.

    Raises:
        RewriterError: a path is the root of the machine, or cannot be followed.
    """

    def __init__(self, program: str, readable: Iterable[str], writable: Iterable[str]) -> None:
        self._program = program
        self._links: dict[str, str] = {}
        folders = [*sorted(python_folders()), sys.executable]
        binds = {self._real(path): "--ro-bind" for path in (*_SYSTEM, *folders)}
        for path in readable:
            binds[self._named(path)] = "--ro-bind"
        for path in writable:
            binds[self._named(path)] = "--bind"
        self._binds = {path: binds[path] for path in sorted(binds) if os.path.exists(path)}
        self._temporary = next(place for place in _TEMPORARY if not self._is_bound(place))
        self.environment = _environment(os.environ, self._temporary)

    def command(self, program: Sequence[str], status: int | None = None) -> list[str]:
        """The arguments that run a program in the sandbox. bwrap writes how the program ended to the descriptor `status`."""
        here = os.getcwd()
        found = [self._program, "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL"]
        if b"--disable-userns" in subprocess.run([self._program, "--help"], capture_output=True, check=False).stdout:
            found += ["--unshare-user", "--disable-userns"]  # since bwrap 0.8
        found += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", self._temporary]
        for place, text in self._links.items():
            if not self._is_bound(os.path.dirname(place)):
                found += ["--symlink", text, place]
        for path, how in self._binds.items():
            if how == "--bind" or not self._is_bound(os.path.dirname(path), how):
                found += [how, path, path]
        if not self._is_bound(here):
            found += ["--dir", here]
        found += ["--remount-ro", "/", "--chdir", here]
        found += [] if status is None else ["--json-status-fd", str(status)]
        return [*found, "--", *program]

    def python(self, code: str) -> list[str]:
        """The arguments of Python, with the packages of this program and none from the current folder."""
        places = [place for place in sys.path if any(_below(place, folder) for folder in python_folders())]
        own = str(Path(rewriter.__file__).parent.parent)
        return [sys.executable, "-c", f"import sys; sys.path[:] = {[*places, own]!r}; {code}"]

    def _named(self, path: str) -> str:
        real = self._real(path)
        if real == "/" or any(_below(real, place) for place in _KERNEL):
            raise RewriterError(f"--sandbox: {path} would open {real} to the models; put the files into a folder of their own")
        return real

    def _real(self, path: str) -> str:
        """The real path. The links on the way are kept, so that the path is also valid in the sandbox."""
        left = list(reversed(os.path.join(os.getcwd(), path).split("/")))
        here, followed = "/", 0
        while left:
            part = left.pop()
            if part in ("", ".", ".."):
                here = os.path.dirname(here) if part == ".." else here
                continue
            place = os.path.join(here, part)
            if not os.path.islink(place):
                here = place
                continue
            if (followed := followed + 1) > _MAX_LINKS:
                raise RewriterError(f"{path}: too many symbolic links")
            try:
                text = os.readlink(place)
            except OSError as error:
                raise RewriterError(f"{place}: {reason(error)}") from None
            self._links[place] = text
            here = "/" if os.path.isabs(text) else here
            left += reversed(text.split("/"))
        return here

    def _is_bound(self, folder: str, how: str = "") -> bool:
        """Whether a folder is bound by itself, in this way."""
        above = (str(one) for one in (Path(folder), *Path(folder).parents))
        nearest = next((self._binds[one] for one in above if one in self._binds), None)
        return nearest is not None and how in ("", nearest)


def python_folders() -> set[str]:
    """The folders of Python, the packages and this program. Of a checkout, only the files that an installation also has."""
    found = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *_package_folders()}
    own = Path(rewriter.__file__).parent
    found |= {str(own), *(str(resource(name)) for name in ("rules", "grammar", "conversions", "targets"))}
    if (cache := _cache()) is not None:
        found.add(cache)
    return found


def _package_folders() -> Iterator[str]:
    if site.ENABLE_USER_SITE:
        yield site.getusersitepackages()
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            yield str(Path(spec.origin).parents[name.count(".") + 1])


def _cache() -> str | None:
    """The folder in which this program keeps files between calls. In the sandbox nothing is added to it."""
    folder = own_folder()
    return None if folder is None else str(folder)


def _environment(outside: Mapping[str, str], temporary: str) -> dict[str, str]:
    found = {name: value for name, value in outside.items() if name in _VARIABLES}
    found |= {"HOME": os.path.expanduser("~"), "PATH": "/usr/bin:/bin", "TMPDIR": temporary}
    if site.ENABLE_USER_SITE:
        found["PYTHONUSERBASE"] = site.getuserbase()
    return found


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


# A program while it runs.

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2
"""Signals that are passed on. One more signal kills the sandbox."""


class SandboxedProcess:
    """A program of Python that runs in a sandbox, which has no terminal and no standard input."""

    def __init__(self, sandbox: Sandbox, code: str, arguments: Sequence[str]) -> None:
        no_core = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"  # a crash leaves no image of the memory
        self._sandbox = sandbox
        self._command = [*sandbox.python(f"{no_core}; {code}"), *arguments]
        self._status = ""
        self._signals: list[int] = []

    def run(self) -> int:
        """Waits for the program, passes on its output and the incoming signals, and returns its exit code."""
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
        command = self._sandbox.command(self._command, writer)
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            return subprocess.Popen(command, env=self._sandbox.environment, pass_fds=[writer], **pipes)
        finally:
            os.close(writer)

    def _relay(self) -> None:
        with selectors.DefaultSelector() as waiting:
            for pipe, stream in ((self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr)):
                assert pipe is not None
                waiting.register(pipe, selectors.EVENT_READ, Printer(stream))
            while waiting.get_map():
                for key, _ in waiting.select():
                    pipe = key.fileobj  # type: ignore[assignment]
                    assert pipe is not None
                    try:
                        is_open = key.data.print(os.read(key.fd, 1 << 16))
                    except BrokenPipeError:  # the reader (`| head`) has gone; the command has to notice that
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
        """Ends the command as without a sandbox: in a session of its own it does not receive Ctrl-C."""
        self._signals.append(number)
        try:
            first = int(self._status_number("child-pid") or "")
            inner = int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])
            if len(self._signals) > _PATIENCE:
                raise ValueError
            os.kill(inner, number)
        except (OSError, ValueError, IndexError):
            self._process.kill()

    def _status_number(self, name: str) -> str | None:
        """A value from bwrap's report on the sandbox."""
        with suppress(BlockingIOError):
            while part := os.read(self._reader, 1 << 12):
                self._status += part.decode()
        found = re.search(rf'"{name}": *(\d+)', self._status)
        return None if found is None else found[1]

    def _ending(self, code: int) -> int:
        if self._status_number("exit-code") is not None:
            if code > 128 and code - 128 in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGXCPU):
                print(
                    f"rewriter: error: the command was killed in the sandbox ({signal.Signals(code - 128).name})",
                    file=sys.stderr,
                )
            return code
        if self._signals:
            print("interrupted", file=sys.stderr)
            return 128 + self._signals[-1]
        raise RewriterError("--sandbox: bwrap failed with the error message above; use a container without network")


class Printer:
    """Prints what comes from the sandbox. On a terminal that is text: an attacker in the sandbox must not steer it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = b""

    def print(self, data: bytes) -> bool:
        """Prints a part and returns whether more follows. The part is empty at the end."""
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
