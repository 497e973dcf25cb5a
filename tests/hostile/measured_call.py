"""One call of the program in a forked process, and what it took: a call that ends its process, or never ends, is one result."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOOKS, PAUSE = 12_000, 0.01
"""A call that has not ended after so many looks, with pauses in seconds between them, counts as one that never ends."""


@dataclass(frozen=True)
class Measured:
    """How a call ended; `seconds` of the processor, and the most bytes of memory that any of its processes had."""

    code: int
    seconds: float
    peak: int
    said: str

    def wrong(self, seconds: float, memory: int) -> str:
        """What is not as it should be of a call with these limits, beside what its process takes anyway; "" for nothing."""
        if self.code not in (0, 1, 2):
            return f"ends with {self.code}: {self.said.strip()[-400:]}"
        if "Traceback" in self.said or "internal error" in self.said:
            return f"an internal error: {self.said.strip()[-400:]}"
        if "has no option" in self.said or "usage:" in self.said or "one argument too many" in self.said:
            return f"is called wrongly: {self.said.strip()[-200:]}"
        if self.seconds > seconds:
            return f"took {self.seconds:.1f} s of the processor: {self.said.strip()[-200:]}"
        if self.peak > memory:
            return f"took {self.peak >> 20} MiB: {self.said.strip()[-200:]}"
        return ""


def own_memory() -> int:
    """Bytes that this process has, and each one that it forks begins with."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def own_data() -> int:
    """Bytes of private data that this process has reserved. They count in the memory limit of each one that it forks."""
    return next(
        int(line.split()[1]) << 10 for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData")
    )


def measured(arguments: Sequence[object], folder: Path) -> Measured:
    """Calls the program; `folder` is for what it prints."""
    sys.stdout.flush()
    sys.stderr.flush()
    printed = folder / "printed.txt"
    number = os.fork()
    if number == 0:
        _call([str(one) for one in arguments], printed)
    for _ in range(LOOKS):
        found, status, used = os.wait4(number, os.WNOHANG)
        if found:
            break
        time.sleep(PAUSE)
    else:
        os.kill(number, signal.SIGKILL)
        _, status, used = os.wait4(number, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    said = printed.read_text(errors="replace") if printed.exists() else ""
    return Measured(code, used.ru_utime + used.ru_stime, used.ru_maxrss << 10, said)


def _call(arguments: list[str], printed: Path) -> None:
    """The forked process."""
    code = 70
    try:
        from rewriter.app.cli.main import main

        with open(printed, "w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout = sys.stderr = file
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            try:
                code = main(arguments)
            except SystemExit as ending:
                code = int(ending.code or 0)
    finally:
        os._exit(code)
