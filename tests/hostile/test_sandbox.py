"""Attacks from within `--sandbox`: small programs that run with what `fix` may reach. Without the sandbox each of them succeeds.

A model cannot run code. These programs stand for what one could do that takes a process over by a bug in native code.
"""

from __future__ import annotations

import io
import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import numpy as np
import pytest

from rewriter.app.batch import bubblewrap
from rewriter.app.batch.bubblewrap import Sandbox
from rewriter.app.cli import sandbox
from rewriter.app.cli.main import make_parser
from rewriter.app.cli.settings import settle
from rewriter.core.errors import RewriterError
from tests.cli.call import GAMMA, GEMM, POOL, Call, contents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

BWRAP = shutil.which("bwrap")


def _runs() -> str:
    """Why bwrap cannot run here; "" if it can."""
    if BWRAP is None:
        return "bwrap is not installed"
    probe = [BWRAP, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"bwrap cannot run: {done.stderr.strip()}"


needs_bwrap = pytest.mark.skipif(bool(_runs()), reason=_runs() or "bwrap runs")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)


@dataclass
class World:
    """What is around a sandbox: models, a secret, and a process of the same user."""

    folder: Path
    victim: int
    port: int
    abstract: str
    shared: str

    @property
    def names(self) -> dict[str, object]:
        places = {name.upper(): str(self.folder / name) for name in ("models", "out", "secret", "lure")}
        return {**places, "VICTIM": self.victim, "PORT": self.port, "ABSTRACT": self.abstract, "SHARED": self.shared}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("TOKEN", "hunter2")
    for name in ("models", "out", "secret"):
        (tmp_path / name).mkdir()
    (tmp_path / "out.journal.jsonl").touch()
    (tmp_path / "models" / "a.onnx").write_bytes(POOL.read_bytes())
    (tmp_path / "secret" / "key").write_text("hunter2")
    (tmp_path / "models" / "link").symlink_to(tmp_path / "secret" / "key")
    (tmp_path / "models" / "dangling.onnx").symlink_to("/nothing.onnx")
    victim = subprocess.Popen(["sleep", "600"])
    abstract = f"\0rewriter-{victim.pid}"
    shared = SharedMemory(create=True, size=16)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(abstract)
        local.listen()
        yield World(tmp_path, victim.pid, server.getsockname()[1], abstract, shared.name)
    shared.close()
    shared.unlink()
    victim.kill()
    victim.wait()


def program(attack: str, world: World) -> str:
    lines = [f"{name} = {value!r}" for name, value in world.names.items()]
    end = "print('esc' + 'aped')"  # in two parts: Python 3.13 shows the source of such a program in tracebacks
    return "\n".join(["import os, socket, sys", "print('begun')", *lines, textwrap.dedent(attack), end])


def in_sandbox(world: World) -> Sandbox:
    """With the files that `fix` gets."""
    given = ["fix", str(world.folder / "models"), "--out", str(world.folder / "out"), "--no-config"]
    args = make_parser().read(given)
    settle(args)
    assert BWRAP is not None
    with sandbox._results(args) as writable:
        return Sandbox(BWRAP, sandbox._readable(args), writable)


def outcome(code: str, sandbox: Sandbox | None) -> str:
    command = [sys.executable, "-c", code] if sandbox is None else sandbox.command(sandbox.python(f"exec({code!r})"))
    environment = None if sandbox is None else sandbox.environment
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.stdout.startswith("begun\n"), done.stderr  # what does not run does not get out
    assert "SyntaxError" not in done.stderr and "NameError" not in done.stderr and "ModuleNotFound" not in done.stderr
    return done.stdout + done.stderr


ATTACKS = {
    "read a file": "open(f'{SECRET}/key').read()",
    "list a folder": "os.listdir(SECRET)",
    "read by a link among the models": "open(f'{MODELS}/link').read()",
    "read by the root of another process": "open(f'/proc/1/root{SECRET}/key').read()",
    "read by the folder of another process": "open(f'/proc/{VICTIM}/root{SECRET}/key').read()",
    "read the accounts of the machine": "open('/etc/passwd').read()",
    "read the environment of the caller": """
        found = b''
        for name in filter(str.isdigit, os.listdir('/proc')):
            try:
                found += open(f'/proc/{name}/environ', 'rb').read()
            except OSError:
                pass
        assert b'hunter2' in found
    """,
    "write among the models": "open(f'{MODELS}/new', 'w').write('x')",
    "replace a model": "open(f'{MODELS}/a.onnx', 'r+b').write(b'x')",
    "remove a model": "os.unlink(f'{MODELS}/a.onnx')",
    "change the permissions of a model": "os.chmod(f'{MODELS}/a.onnx', 0o666)",
    "change the permissions of a folder": "os.chmod(MODELS, 0o777)",
    "change the times of a model": "os.utime(f'{MODELS}/a.onnx', (0, 0))",
    "rename a model": "os.rename(f'{MODELS}/a.onnx', f'{OUT}/a.onnx')",
    "link a model": "os.link(f'{MODELS}/a.onnx', f'{OUT}/linked'); open(f'{OUT}/linked', 'r+b').write(b'x')",
    "write elsewhere": "open(f'{SECRET}/key', 'w').write('x')",
    "write beside the results": "open(f'{OUT}/../secret/new', 'w').write('x')",
    "write among Python's packages": """
        import onnx
        open(os.path.join(os.path.dirname(onnx.__file__), 'planted'), 'w').close()
        os.unlink(os.path.join(os.path.dirname(onnx.__file__), 'planted'))
    """,
    "write by a link among the results": """
        os.symlink(f'{SECRET}/key', f'{OUT}/a.onnx')
        open(f'{OUT}/a.onnx', 'w').write('x')
    """,
    "send a signal": "os.kill(VICTIM, 0)",
    "change the limits of a process": "import resource; resource.prlimit(VICTIM, resource.RLIMIT_CORE, (0, 0))",
    "change the priority of a process": "os.setpriority(os.PRIO_PROCESS, VICTIM, 5)",
    "change the processors of a process": "os.sched_setaffinity(VICTIM, os.sched_getaffinity(VICTIM))",
    "read the memory of a process": "open(f'/proc/{VICTIM}/maps').read(); open(f'/proc/{VICTIM}/mem', 'rb')",
    "run a program from among the results": """
        import subprocess
        open(f'{OUT}/planted', 'w').write(f'#!/bin/sh\\nexec cat {SECRET}/key\\n')
        os.chmod(f'{OUT}/planted', 0o755)
        assert subprocess.check_output([f'{OUT}/planted']) == b'hunter2'
    """,
    "run a program from memory": """
        import shutil, subprocess
        place = os.memfd_create('planted', 0)
        os.write(place, open(shutil.which('cat'), 'rb').read())
        assert subprocess.check_output([f'/proc/self/fd/{place}', f'{SECRET}/key'], pass_fds=[place]) == b'hunter2'
    """,
    "connect by TCP": "socket.create_connection(('127.0.0.1', PORT), 5)",
    "connect to a socket without a file": "socket.socket(socket.AF_UNIX).connect(ABSTRACT)",
    "open shared memory": "open(f'/dev/shm/{SHARED}', 'r+b').write(b'x')",
}
"""What each does, and the program; what it raises, the system refuses."""


@needs_bwrap
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_does_not_get_out(attack: str, world: World) -> None:
    before = contents(world.folder / "models"), contents(world.folder / "secret")
    assert "escaped" not in outcome(program(ATTACKS[attack], world), in_sandbox(world))
    assert (contents(world.folder / "models"), contents(world.folder / "secret")) == before


@pytest.mark.parametrize("attack", [name for name in ATTACKS if "/proc/1/" not in ATTACKS[name]])
def test_without_the_sandbox_it_succeeds(attack: str, world: World) -> None:
    assert "escaped" in outcome(program(ATTACKS[attack], world), None)


@needs_bwrap
def test_what_may_be_done(world: World) -> None:
    work = """
        import tempfile
        open(f'{MODELS}/a.onnx', 'rb').read()
        open(f'{OUT}/new', 'w').write('new')
        os.rename(f'{OUT}/new', f'{OUT}/named')
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(b'x')
        open(f'{OUT}/../private', 'w').close()
        socket.socketpair()
    """
    assert outcome(program(work, world), in_sandbox(world)) == "begun\nescaped\n"
    assert (world.folder / "out" / "named").read_text() == "new"
    assert not (world.folder / "private").exists()  # a folder for temporary files, in which only the models are real


@needs_bwrap
def test_rights_that_do_not_come_back(world: World) -> None:
    """No capabilities, no programs that would give some, and no new namespaces in which a mount could be changed."""
    status = outcome(program("print(open('/proc/self/status').read())", world), in_sandbox(world))
    rights = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {rights[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert rights["NoNewPrivs"] == "1"
    mount = """
        import ctypes
        library = ctypes.CDLL(None, use_errno=True)
        library.unshare(0x10000000 | 0x20000)
        library.mount(None, MODELS.encode(), None, 0x1020, None)
        open(f'{MODELS}/new', 'w').write('x')
    """
    assert "escaped" not in outcome(program(mount, world), in_sandbox(world))


@needs_bwrap
def test_no_file_of_the_caller_is_open(world: World) -> None:
    look = """
        import stat
        for process in ('self', '1'):
            for name in os.listdir(f'/proc/{process}/fd'):
                try:
                    target = os.readlink(f'/proc/{process}/fd/{name}')
                except OSError:
                    continue
                print(target.partition(':')[0])
    """
    with open(world.folder / "secret" / "key") as file:
        os.set_inheritable(file.fileno(), True)
        kinds = set(outcome(program(look, world), in_sandbox(world)).split())
    assert kinds <= {"pipe", "/dev/null", "anon_inode", "begun", "escaped", "/proc/2/fd", "/proc/1/fd"}


@needs_bwrap
@pytest.mark.parametrize("attack", ["fcntl.ioctl(0, termios.TIOCSTI, b'x')", "open('/dev/tty', 'w')"])
def test_the_terminal_takes_no_input(attack: str, world: World) -> None:
    """The program has the terminal as its standard input here, which the command does not give it."""
    sandbox = in_sandbox(world)
    code = program(f"import fcntl, termios\n{attack}", world)
    child, terminal = pty.fork()
    if not child:
        command = sandbox.command(sandbox.python(f"exec({code!r})"))
        os.execve(command[0], command, sandbox.environment)
    said = read_all(terminal)
    os.waitpid(child, 0)
    assert said.startswith("begun") and "Error" in said and "escaped" not in said


def read_all(terminal: int) -> str:
    said = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            part = os.read(terminal, 1 << 12)
        except OSError:
            break
        if not part:
            break
        said += part
    return said.decode(errors="replace")


def test_what_is_printed_does_not_steer_the_terminal() -> None:
    outer, inner = pty.openpty()
    with open(inner, "w") as stream:
        printer = bubblewrap.Printer(stream)
        assert printer.print(b"a line\nthe \x1b]0;title\x07 of ") and printer.print("ünter".encode())
        assert not printer.print(b"")
    said = read_all(outer)
    os.close(outer)
    assert said == "a line\r\nthe \\x1b]0;title\\x07 of ünter"


@needs_bwrap
@pytest.mark.parametrize("command", ["fix", "check", "optimize"])
def test_the_same_bytes_as_without(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for place, model in (("a.onnx", POOL), ("b.onnx", GEMM), ("sub/c.onnx", GAMMA)):
        (tmp_path / "in" / place).write_bytes(model.read_bytes())
    done = {}
    for name, more in (("plain", ()), ("confined", ("--sandbox",))):
        out = () if command == "check" else ("--out", name)
        ended = call(command, "in", *out, "--report", f"{name}.json", "--report", f"reports-{name}/r.md", "--jobs", 2, *more)
        lines = [line.replace(name, "NAME") for line in ended.out.splitlines()]
        assert (tmp_path / f"{name}.json").stat().st_size and (tmp_path / f"reports-{name}" / "r.md").stat().st_size
        done[name] = ended.code, lines, contents(tmp_path / name) if out else {}
    assert done["plain"] == done["confined"]
    assert command == "check" or len(done["plain"][2]) == 3


@needs_bwrap
def test_a_single_result_goes_to_its_place_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.onnx").write_bytes(GEMM.read_bytes())
    assert call("fix", "a.onnx", "-o", "plain.onnx", "--report", "p.json").code == 0
    done = call("fix", "a.onnx", "-o", "confined.onnx", "--report", "c.json", "--sandbox")
    assert done.code == 0 and "-> confined.onnx" in done.out
    assert (tmp_path / "confined.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes() != GEMM.read_bytes()
    assert "rewriter-tmp" not in (tmp_path / "c.json").read_text()
    assert (
        call("fix", "a.onnx", "-o", "confined.onnx", "--sandbox").err
        == "rewriter: error: confined.onnx exists; --force overwrites it\n"
    )
    assert sorted(os.listdir(tmp_path)) == ["a.onnx", "c.json", "confined.onnx", "p.json", "plain.onnx"]


@needs_bwrap
def test_options_that_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in", "rules", "far"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.onnx").write_bytes(GEMM.read_bytes())
    rule = next(Path(__file__).parents[2].joinpath("rules", "mxnet").glob("MX001_*.rules"))
    (tmp_path / "far" / "MX001.rules").write_bytes(rule.read_bytes())
    (tmp_path / "rules" / "linked.rules").symlink_to("../far/MX001.rules")
    (tmp_path / "far" / "table.csv").write_text("node,attribute,value\n")
    (tmp_path / "rewriter.toml").write_text('rules = ["rules/linked.rules"]\nsource = "far/table.csv"\n')
    plain = call("fix", "in", "--out", "plain", "--journal", "far/plain.jsonl")
    done = call("fix", "in", "--out", "confined", "--journal", "far/confined.jsonl", "--sandbox")
    assert (done.code, done.out) == (plain.code, plain.out.replace("plain", "confined"))
    assert contents(tmp_path / "plain") == contents(tmp_path / "confined")
    assert (
        "1 are done, 0 left"
        in call("fix", "in", "--out", "confined", "--journal", "far/confined.jsonl", "--resume", "--sandbox").err
    )


@needs_bwrap
def test_links_out_of_the_models_folder(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "far.onnx").write_bytes(POOL.read_bytes())
    (folder / "a.onnx").write_bytes(POOL.read_bytes())
    (folder / "b.onnx").symlink_to("a.onnx")
    (folder / "far.onnx").symlink_to(tmp_path / "far.onnx")
    (folder / "top.onnx").symlink_to("/nothing.onnx")
    done = call("check", folder, "--sandbox")
    assert done.code == 2
    assert [line.split(": ")[1] for line in done.err.splitlines() if "symbolic link out of" in line] == [
        str(folder / "far.onnx"),
        str(folder / "top.onnx"),
    ]
    assert call("check", folder / "b.onnx", "--sandbox").code == call("check", folder / "b.onnx").code
    assert "is a symbolic link out of its folder; name " in call("check", folder / "far.onnx", "--sandbox").err
    (tmp_path / "linked").symlink_to(folder)
    assert f"name {folder} instead" not in call("check", tmp_path / "linked" / "a.onnx", "--sandbox").err


@needs_bwrap
def test_no_folder_opens_the_machine(call: Call) -> None:
    assert "would open / to the models" in call("check", "/nothing.onnx", "--sandbox").err
    assert "would open /proc/self to the models" not in call("check", str(POOL), "--sandbox").err
    assert "to the models; put the files into a folder" in call("check", "/proc/version.onnx", "--sandbox").err


@pytest.mark.parametrize(
    "given",
    [
        ("check", str(POOL), "--scheduler", "local"),
        ("check", "-"),
        ("check", "https://example.org/a.onnx"),
        ("fix", str(POOL)),
        ("fix", str(POOL), "--in-place"),
        ("fix", str(POOL), "--out", str(POOL.parent)),
    ],
)
@needs_bwrap
def test_what_it_cannot_be_for(given: tuple[str, ...], call: Call) -> None:
    before = POOL.read_bytes()
    done = call(*given, "--sandbox")
    assert done.code == 2 and done.err.startswith("rewriter: error: --sandbox") and done.err.count("\n") == 1
    assert POOL.read_bytes() == before


def test_without_bwrap_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = call("check", POOL, "--sandbox")
    assert (done.code, done.err) == (
        2,
        "rewriter: error: --sandbox needs bwrap, which is not installed; install it with: apt install bubblewrap\n",
    )


def test_a_bwrap_that_cannot_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bwrap: No permissions to create a new namespace >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = call("check", POOL, "--sandbox")
    assert (
        done.code == 2
        and "bwrap: No permissions" in done.err
        and "--sandbox: bwrap failed with the error message above" in done.err
    )


@pytest.mark.parametrize("planted", ["link", "fifo", "folder"])
def test_what_is_no_file_is_not_taken_out(planted: str, tmp_path: Path) -> None:
    staged = tmp_path / "model.onnx"
    {"link": lambda: staged.symlink_to("/etc/passwd"), "fifo": lambda: os.mkfifo(staged), "folder": staged.mkdir}[planted]()
    with pytest.raises(RewriterError, match=r"result\.onnx is not written"):
        sandbox._put(staged, str(tmp_path / "result.onnx"), force=True)
    assert not (tmp_path / "result.onnx").exists()


@needs_bwrap
@pytest.mark.parametrize(("number", "code"), [(2, 130), (15, 143)])
def test_a_signal_ends_it(number: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for count in range(400):
        (tmp_path / "in" / f"{count}.onnx").write_bytes(GEMM.read_bytes())
    given = [sys.executable, "-m", "rewriter", "fix", "in", "--out", "out", "--sandbox", "--runtime", "no"]
    root = str(Path(__file__).parents[2])
    running = subprocess.Popen(given, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root})
    while running.poll() is None and not list(tmp_path.glob("out/*.onnx")):
        time.sleep(0.02)
    running.send_signal(number)
    said = running.communicate()[1]
    assert running.returncode == code and "continue with --resume" in said


def test_text_that_ends_within_a_character_is_printed() -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    stream = Terminal(io.BytesIO())
    printer = bubblewrap.Printer(stream)
    for part in ("ü".encode()[:1], "ü".encode()[1:], b"\n", b""):
        printer.print(part)
    assert stream.buffer.getvalue() == "ü\n".encode()


TRACT = """
import os, pathlib, socket
class TractError(Exception): pass
def version(): return "0.0"
def onnx(): return Model()
class Model:
    def load(self, path): self.path = path; return self
    def input_count(self):
        seen = [place for place in ("SECRET", self.path) if pathlib.Path(place).exists()]
        raise RuntimeError(f"{len(seen)} seen, {sorted(socket.if_nameindex())}, {'TOKEN' in os.environ}")
"""


@needs_bwrap
def test_a_consumer_is_asked_in_the_sandbox(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees the model and its own environment; not other files, the network, or what the caller has in its environment."""
    monkeypatch.setenv("TOKEN", "hunter2")
    (tmp_path / "secret").write_text("hunter2")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.onnx").write_bytes(POOL.read_bytes())
    packages = tmp_path / "env" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    for folder in (packages, tmp_path / "env" / "bin"):
        folder.mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "env" / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    (packages / "tract.py").write_text(TRACT.replace("SECRET", str(tmp_path / "secret")))
    (packages / "numpy.pth").write_text(str(Path(np.__file__).parent.parent))
    done = call("check", tmp_path / "models" / "a.onnx", "--ask", "tract", "--consumer-env", tmp_path / "env", "--sandbox")
    assert done.code == 1, done.err
    assert "tract 0.0 rejects it: 1 seen, [(1, 'lo')], False" in done.out
