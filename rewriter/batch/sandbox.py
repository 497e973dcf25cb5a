"""A sandbox for work on models that nobody trusts: a bug in native code that lets one take over the process gives it little.

Linux gives up rights without help of others: Landlock those on files, seccomp the one to open sockets. Whatever the process
starts has the same rights, and none of them comes back. Bindings for Python are thin and hardly kept up, and what is needed of
both is a few calls, whose numbers are part of Linux's promise to its users.
"""

from __future__ import annotations

import os
import platform
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rewriter.errors import RewriterError

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_MACHINES = {"x86_64": (0xC000003E, 41, 425), "aarch64": (0xC00000B7, 198, 425)}
"""Of each: its mark in filters, and the numbers of the calls that open sockets, or that open them unseen (io_uring)."""

_RUN = 1 << 0
_READ = 1 << 2 | 1 << 3
_WRITE = _READ | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13 | 1 << 14
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14
"""Rights as Landlock numbers them: to execute, read, list; to write, remove, make files and folders, rename and cut."""

_ABOUT_MACHINE = ("cpuinfo", "meminfo", "stat")
_SYSTEM = ("/usr", "/lib", "/lib64", "/etc", "/sys/devices/system", "/sys/fs/cgroup", *map("/proc/{}".format, _ABOUT_MACHINE))
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_LIBRARIES = ("rewriter", "onnx", "onnxruntime", "numpy")


def enter(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Gives up the network, and all files but some, for this process and all that it starts.

    Args:
        readable: files and folders, beside what Python and its packages need.
        writable: folders; the first one also takes temporary files.

    Raises:
        RewriterError: this system cannot do it.
    """
    library, version, machine = _possible()
    folders = [os.path.abspath(one) for one in writable]
    rules = [(one, _READ | _RUN) for one in (*_SYSTEM, *_python())] + [(one, _READ) for one in readable]
    rules += [(one, _WRITE) for one in (*folders, *_DEVICES)]
    handled = (1 << {1: 13, 2: 14}.get(version, 15)) - 1
    attributes = struct.pack("QQQ", handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    rule_set = library.syscall(_CREATE, attributes, 8 if version < 4 else 16 if version < 6 else 24, 0)
    if rule_set < 0:
        raise RewriterError("--sandbox: this system's Landlock refuses it")
    try:
        for path, rights in rules:
            _allow(library, rule_set, path, rights & handled)
        from ctypes import c_ulong as number

        (program, _steps), none = _sockets_denied(machine), number(0)
        done = library.prctl(_NO_NEW_PRIVILEGES, number(1), none, none, none) == 0
        done = done and library.syscall(_RESTRICT, rule_set, 0) == 0
        if not done or library.prctl(_SECCOMP, number(_FILTER), program, none, none) != 0:
            raise RewriterError("--sandbox: this system does not let a process give up its rights")
    finally:
        os.close(rule_set)
    if folders:
        os.environ["TMPDIR"] = tempfile.tempdir = folders[0]


def _possible() -> tuple[Any, int, tuple[int, int, int]]:
    """The C library, the version of Landlock, and what is known of the machine."""
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise RewriterError("--sandbox needs Linux on x86-64 or ARM-64; elsewhere, use a container without network")
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    version = int(library.syscall(_CREATE, None, 0, 1))
    if version < 1:
        raise RewriterError("--sandbox needs Landlock (Linux 5.13 or newer, switched on); use a container without network")
    return library, version, machine


def _allow(library: Any, rule_set: int, path: str, rights: int) -> None:
    """A right on a path and all below it; nothing, where there is no such path."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rights = rights if os.path.isdir(path) else rights & _OF_FILES
            if library.syscall(_ADD, rule_set, 1, struct.pack("=Qi", rights, descriptor), 0) != 0:
                raise RewriterError(f"--sandbox: {path}: this system's Landlock refuses it")
        finally:
            os.close(descriptor)


def _sockets_denied(machine: tuple[int, int, int]) -> tuple[Any, Any]:
    """The filter for calls of the system, and its steps, which have to live as long.

    Calls that open sockets fail, but for pairs that only relatives share.
    """
    import ctypes

    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    mark, socket, unseen = machine
    steps = [
        (load, 0, 0, 4),
        (equal, 0, 5, mark),
        (load, 0, 0, 0),
        (at_least, 3, 0, 1 << 30),  # calls of the x32 kind have other numbers
        (equal, 2, 0, socket),
        (equal, 1, 0, unseen),
        (end, 0, 0, 0x7FFF0000),  # allowed
        (end, 0, 0, 0x00050001),  # fails with EPERM
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    return ctypes.create_string_buffer(struct.pack("HP", len(steps), ctypes.addressof(code))), code


def _python() -> list[str]:
    """Where Python and its packages are, and the cache of this program, which stays as it is."""
    from rewriter.language.cache.store import own_folder
    from rewriter.resources import resource

    found = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), str(resource("rules")), str(resource("grammar"))}
    for name in _LIBRARIES:
        if (spec := find_spec(name)) is not None and spec.origin is not None:
            found.add(str(Path(spec.origin).parent))
    if (folder := own_folder()) is not None:
        found.add(str(folder))
    return sorted(found)
