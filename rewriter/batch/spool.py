"""Records that wait on the disk: however many models there are, what is known of them does not fill the memory."""

from __future__ import annotations

import pickle
import tempfile
from array import array
from collections.abc import Iterator
from typing import IO, Any, Generic, TypeVar

from rewriter.errors import RewriterError, reason

T = TypeVar("T")


class Spool(Generic[T]):
    """Records by their numbers, in a file without a name that only this process has.

    Those of a list of models are iterated over in the order of these, whatever the order in which they were put there.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._offsets = array("q")
        self._count = 0

    def put(self, number: int, one: T) -> None:
        """Keeps a record under a number that is free. Raises RewriterError when there is no room."""
        try:
            self._put(number, one)
        except OSError as error:
            raise RewriterError(f"{tempfile.gettempdir()}: {reason(error)}") from error

    def _put(self, number: int, one: T) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="rewriter-")  # noqa: SIM115 -- it stays open
        while len(self._offsets) <= number:
            self._offsets.append(-1)
        self._offsets[number] = self._file.seek(0, 2)
        self._count += 1
        pickle.dump(one, self._file, pickle.HIGHEST_PROTOCOL)

    def take(self, number: int) -> T:
        """The record of a number, which is there."""
        assert self._file is not None
        self._file.seek(self._offsets[number])
        found: Any = pickle.load(self._file)
        return found  # type: ignore[no-any-return]

    def numbers(self) -> Iterator[int]:
        """Those that have a record."""
        return (number for number, offset in enumerate(self._offsets) if offset >= 0)

    def __iter__(self) -> Iterator[T]:
        return map(self.take, self.numbers())

    def __len__(self) -> int:
        return self._count
