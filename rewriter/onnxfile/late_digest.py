"""The digest of a large file, worked out while the file that is to hold it is being written.

Until it is known, a text of the same length stands for it; the digest is written over that at last. To digest a gigabyte takes
about as long as to copy it, and both can be done at once.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from threading import Thread

from rewriter.errors import RewriterError
from rewriter.onnxfile.weights_apart import digest
from rewriter.onnxfile.weights_in_files import Payload, WeightFile


class LateDigest:
    """SHA-256 of a file of weights, in hexadecimal; the work begins at once.

    Attributes:
        placeholder: what stands for it: random, so that it is nowhere else in a model.
    """

    def __init__(self, file: WeightFile) -> None:
        self.placeholder = secrets.token_hex(32)
        self._found = ""
        self._error: RewriterError | None = None
        self._thread = Thread(target=self._work, args=(file,), daemon=True)
        self._thread.start()

    def _work(self, file: WeightFile) -> None:
        try:
            self._found = digest([Payload(file, 0, file.size)])
        except RewriterError as error:
            self._error = error

    def result(self) -> str:
        """The digest, as soon as it is known. Raises RewriterError when the file was changed or cannot be read."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def write(self, descriptor: int, pieces: Sequence[bytes | Payload]) -> None:
        """Writes the digest over the placeholder in a file that was written from these pieces."""
        offset, wanted = 0, self.placeholder.encode()
        for piece in pieces:
            if isinstance(piece, bytes):
                place = piece.find(wanted)
                if place >= 0:
                    os.lseek(descriptor, offset + place, os.SEEK_SET)
                    os.write(descriptor, self.result().encode())
                    return
            offset += len(piece) if isinstance(piece, bytes) else piece.length
