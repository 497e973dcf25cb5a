"""Arrays in files of NumPy, which people give as inputs, outputs or weights, and what is said of damaged ones."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rewriter.errors import RewriterError, reason
from rewriter.onnxfile.write import write_file


@contextmanager
def opened_arrays(path: Path) -> Iterator[Any]:
    """The array of an .npy file, or the `NpzFile` of an .npz file; its arrays are read when they are asked for.

    Raises:
        RewriterError: the file, or what is asked of it, cannot be read.
    """
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            yield found
            return
        with found as arrays:
            yield arrays
    except RewriterError:
        raise
    except (OSError, ValueError, EOFError) as error:
        if "pickle" in str(error):  # NumPy would have the reader trust the file
            raise RewriterError(f"{path}: no .npy or .npz file, or one of Python objects, which are not read") from None
        raise RewriterError(f"{path}: {reason(error)}") from error
    except Exception as error:  # zipfile and NumPy's reader have errors of their own for damaged files
        raise RewriterError(f"{path}: no .npy or .npz file: {error}") from error


def read_inputs(path: str) -> dict[str, Any]:
    """All arrays of an .npz file by their names.

    Raises:
        RewriterError: the file cannot be read, or is none.
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
