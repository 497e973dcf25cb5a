"""Arrays in files of NumPy, which people give as inputs, outputs or weights, and what is said of damaged ones."""

from __future__ import annotations

import math
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, read_array_header_1_0, read_array_header_2_0

from rewriter.errors import RewriterError, reason
from rewriter.onnxfile.write import write_file
from rewriter.proof.judges import budget
from rewriter.proof.judges.memory import told

_NONE = "no .npy or .npz file"
_ZIP = b"PK"
_HEADERS = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}


@contextmanager
def opened_arrays(path: Path) -> Iterator[Any]:
    """The array of an .npy file, or the `NpzFile` of an .npz file; its arrays are read when they are asked for.

    How much they take is known before: a file of some megabytes may stand for any number of gigabytes.

    Raises:
        RewriterError: the file, or what is asked of it, cannot be read, or takes more than the memory limit.
    """
    try:
        with open(path, "rb", opener=_not_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RewriterError(f"{path}: not a regular file")
            _check_size(file, path)
            file.seek(0)
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                yield found
                return
            with found as arrays:
                yield arrays
    except (RewriterError, MemoryError):
        raise
    except (OSError, ValueError, EOFError) as error:
        if "pickle" in str(error):  # NumPy would have the reader trust the file
            raise RewriterError(f"{path}: {_NONE}, or one of Python objects, which are not read") from None
        raise RewriterError(f"{path}: {reason(error)}") from error
    except Exception as error:  # zipfile and NumPy's reader have errors of their own for damaged files
        raise RewriterError(f"{path}: {_NONE}: {error}") from error


def _not_waiting(path: str, flags: int) -> int:
    """Opens a file; of a pipe, nobody waits for the other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_size(file: BinaryIO, path: Path) -> None:
    """Raises RewriterError where the headers of the arrays say that they are none, or take too much memory."""
    most = budget.current().memory
    if file.read(len(_ZIP)) != _ZIP:
        file.seek(0)
        size = _declared(file, os.fstat(file.fileno()).st_size, str(path), whole=True)
    else:
        size = 0
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                with archive.open(member) as entry:
                    size += _declared(entry, member.file_size, f"{path}: {member.filename!r} in it", whole=False)
    if most is not None and size > most:
        raise RewriterError(f"{path}: its arrays take {told(size)}, more than the memory limit of {told(most)}")


def _declared(file: IO[bytes], available: int, name: str, *, whole: bool) -> int:
    """Bytes of the array that begins here, by its header. Raises RewriterError if there is none, or less than it says."""
    if (start := file.read(len(MAGIC_PREFIX) + 2))[: len(MAGIC_PREFIX)] != MAGIC_PREFIX:
        raise RewriterError(f"{name}: {_NONE if whole else 'no array of NumPy'}")
    read = _HEADERS.get((start[-2], start[-1]))
    if read is None:
        raise RewriterError(f"{name}: an array in version {start[-2]}.{start[-1]} of the format, which is not read")
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise RewriterError(f"{name}: {_NONE}, or one of Python objects, which are not read")
    size = math.prod(shape) * dtype.itemsize
    if size > available:
        raise RewriterError(f"{name}: cut short: its array takes {size:,} bytes, and there are {available:,}")
    return size


def read_inputs(path: str) -> dict[str, Any]:
    """All arrays of an .npz file by their names.

    Raises:
        RewriterError: the file cannot be read, is none, or takes more than the memory limit.
    """
    with opened_arrays(Path(path)) as arrays:
        if isinstance(arrays, np.ndarray):
            raise RewriterError(f"{path}: no .npz file, but a single array")
        return {name: arrays[name] for name in arrays.files}


def write_arrays(path: Path, arrays: Mapping[str, Any], *, force: bool) -> None:
    """Writes an .npz file, at once or not at all; texts as NumPy's own, since other objects would be pickled.

    Raises:
        RewriterError: the file exists or cannot be written.
    """

    def fill(descriptor: int) -> None:
        with open(descriptor, "wb", closefd=False) as file, zipfile.ZipFile(file, "w") as archive:
            for name, value in arrays.items():
                array = np.asarray(value)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array.astype(str) if array.dtype == object else array, allow_pickle=False)

    write_file(path, fill, force)
