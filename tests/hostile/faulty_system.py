"""A system that fails on purpose: a call of it with an error, or the whole process killed, at any moment that one likes."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

from rewriter.app.cli.main import main
from rewriter.core.onnxfile import files as written_files
from rewriter.core.onnxfile.files import ENDING

MODELS = Path(__file__).parent.parent / "models"
GEMM = MODELS / "mxnet-1.3.1-fully-connected.onnx"
RULES = "--select", "DEFAULT"

CALLS = (
    "write",
    "fsync",
    "replace",
    "link",
    "unlink",
    "open",
    "pread",
    "preadv",
    "copy_file_range",
    "sendfile",
    "chmod",
    "fdopen",
)
"""What writes files, or reads them, of `os`."""

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT)
SHORT = -1
"""Instead of an error: a write that takes only a part."""

Files = dict[str, bytes]


@dataclass(frozen=True)
class Fault:
    """The call of this name with this number fails like this."""

    call: str
    number: int
    error: int


@contextmanager
def failing(fault: Fault | None, seen: Counter[str]) -> Iterator[None]:
    """A system in which one call fails; counts all of them."""
    real = {name: getattr(os, name) for name in CALLS if hasattr(os, name)}

    def replaced(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            seen[name] += 1
            if fault is not None and (fault.call, fault.number) == (name, seen[name]):
                if fault.error != SHORT:
                    raise OSError(fault.error, os.strerror(fault.error))
                if name == "write" and len(arguments[1]) > 1:
                    return real[name](arguments[0], arguments[1][: len(arguments[1]) // 2])
            return real[name](*arguments, **named)

        return call

    for name in real:
        setattr(os, name, replaced(name))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(os, name, function)


@dataclass(frozen=True)
class Scene:
    """A call and its files.

    Attributes:
        name: of the scene.
        make: puts the inputs into a folder.
        arguments: of the command, which is called in this folder.
        again: those with which it is called after something went wrong.
        results: files that the call may write.
    """

    name: str
    make: Callable[[Path], object]
    arguments: Sequence[str]
    again: Sequence[str]
    results: Sequence[str]


def _single(folder: Path) -> None:
    shutil.copy(GEMM, folder / "net.onnx")
    shutil.copy(GEMM.with_name(f"{GEMM.stem}-symbol.json"), folder / "net-symbol.json")


def _with_data(folder: Path) -> None:
    _single(folder)
    model = onnx.load(folder / "net.onnx")
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, folder / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (folder / "out").mkdir()


def _many(folder: Path) -> None:
    for number in range(8):
        (folder / "in" / f"d{number % 3}").mkdir(parents=True, exist_ok=True)
        place = folder / "in" / f"d{number % 3}" / f"m{number}.onnx"
        shutil.copy(GEMM, place)
        if number % 2:
            shutil.copy(GEMM.with_name(f"{GEMM.stem}-symbol.json"), place.with_name(f"m{number}-symbol.json"))


_PLAIN = ("fix", "net.onnx")
_BATCH = ("fix", "in", "--out", "out", "--jobs", "2")
SCENES = (
    Scene("single", _single, (*_PLAIN, "-o", "o.onnx"), (*_PLAIN, "-o", "o.onnx", "--force"), ("o.onnx",)),
    Scene("in place", _single, (*_PLAIN, "--in-place"), (*_PLAIN, "--in-place"), ("net.onnx",)),
    Scene(
        "external data",
        _with_data,
        (*_PLAIN, "-o", "out/o.onnx"),
        (*_PLAIN, "-o", "out/o.onnx", "--force"),
        ("out/o.onnx", "out/w.bin"),
    ),
)
BATCH = Scene("batch", _many, _BATCH, (*_BATCH, "--resume"), tuple(f"out/d{n % 3}/m{n}.onnx" for n in range(8)))


def files(folder: Path) -> Files:
    """What is in a folder, without journals, which hold times."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".journal.jsonl")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@contextmanager
def stage(scene: Scene) -> Iterator[Path]:
    """A new folder with the inputs of a scene, which is the current one meanwhile."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        scene.make(Path(name))
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def complain(scene: Scene, before: Files, after: Files, wanted: Files) -> str:
    """What is wrong with the files that a failure left: half of one, or a damaged input; "" for nothing."""
    for name, data in after.items():
        if name.endswith(ENDING):
            continue  # until the next run
        known = [files[name] for files in (before, wanted) if name in files]
        copies = [data for other, data in before.items() if other.endswith(".onnx")]  # of a model that failed
        if data not in (*known, *copies):
            return f"{scene.name}: {name} is neither what it was nor what it is to be"
    lost = [name for name in before if name not in after]
    return f"{scene.name}: {', '.join(lost)} is gone" if lost else ""


def undisturbed(scene: Scene) -> tuple[Files, Files, Counter[str]]:
    """The files before and after a run, and the calls that it made."""
    seen: Counter[str] = Counter()
    with stage(scene) as folder:
        before = files(folder)
        with failing(None, seen):
            code = main([*scene.arguments, *RULES])
        assert code in (0, 1), code
        return before, files(folder), seen


def with_fault(scene: Scene, fault: Fault, before: Files, wanted: Files) -> str:
    """Runs a scene with a fault, and then once more without; what is wrong, or ""."""
    with stage(scene) as folder:
        with failing(fault, Counter()):
            code = main([*scene.arguments, *RULES])
        if code not in (0, 1, 2):
            return f"{scene.name}, {fault}: exit code {code}"
        if wrong := complain(scene, before, files(folder), wanted):
            return f"{wrong} ({fault})"
        written_files._searched.clear()  # as in another process
        main([*scene.again, *RULES])
        return "" if files(folder) == wanted else f"{scene.name}, {fault}: the next run does not mend it"


def killed(scene: Scene, moment: float, before: Files, wanted: Files) -> str:
    """Runs a scene, kills it after so many seconds, and runs it once more; what is wrong, or ""."""
    with stage(scene) as folder:
        number = _forked([*scene.arguments, *RULES])
        time.sleep(moment)
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)
        if not _all_gone(number):
            return f"{scene.name}: a process outlived the one that was killed after {moment:.3f} s"
        if wrong := complain(scene, before, files(folder), wanted):
            return f"{wrong} (killed after {moment:.3f} s)"
        _, status = os.waitpid(_forked([*scene.again, *RULES]), 0)
        if os.waitstatus_to_exitcode(status) not in (0, 1):
            return f"{scene.name}, killed after {moment:.3f} s: the next run ends with {os.waitstatus_to_exitcode(status)}"
        after = files(folder)
        if after != wanted:
            differ = sorted(name for name in after.keys() | wanted if after.get(name) != wanted.get(name))
            return f"{scene.name}, killed after {moment:.3f} s: the next run leaves {', '.join(differ)}"
        return ""


def _forked(arguments: Sequence[str]) -> int:
    """A process of its own group that calls the command; it has imported everything already."""
    number = os.fork()
    if number:
        return number
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", closefd=False) for descriptor in (1, 2))
        os._exit(main(arguments))
    finally:
        os._exit(70)


def _all_gone(group: int) -> bool:
    for _ in range(10_000):
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return True
        if not _alive(group):
            return True
        time.sleep(0.01)
    return False


def _alive(group: int) -> bool:
    """Whether a process of a group is more than an entry that nobody has asked for."""
    found = subprocess.run(["ps", "-o", "stat=", "-g", str(group)], capture_output=True, text=True, check=False)
    return any(line.strip()[:1] != "Z" for line in found.stdout.splitlines())


def moments(scene: Scene, count: int, seed: int, whole: float = 0.0) -> Iterator[float]:
    """Random moments of a run of a scene, which is first measured unless it is known how many seconds it takes."""
    if not whole:
        with stage(scene):
            started = time.time_ns()
            os.waitpid(_forked([*scene.arguments, *RULES]), 0)
            whole = (time.time_ns() - started) / 1e9
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.uniform(0.0, 1.1 * whole)
