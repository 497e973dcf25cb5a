"""Arrays in files of NumPy, which people give as inputs, outputs or weights, and what is said of damaged ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rewriter.errors import RewriterError, reason


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
