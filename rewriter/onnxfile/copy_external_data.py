"""Taking the data files of a model along when the model is written to another folder."""

from __future__ import annotations

import os
from pathlib import Path

import onnx

from rewriter.errors import RewriterError, reason
from rewriter.onnxfile import external_data
from rewriter.onnxfile.transfer import data_parts, transfer
from rewriter.onnxfile.write import write_file

_CHUNK = 1 << 22


def may_refer(data: bytes) -> bool:
    """Whether a serialised model could refer to data files: the key of such a reference stands in it literally."""
    return b"location" in data


def copy_data_files(model: onnx.ModelProto, source: Path, target: Path, force: bool) -> None:
    """Copies every data file the model refers to from one folder into another, to the same relative place.

    They are copied by the system, which shares the blocks where the file system can. They are not hard-linked: later edits of
    one would change both, and onnx itself refuses data with several names, as this program refuses those with names elsewhere.
    A file that is missing is not copied: the new model lacks it as the old one does. A file that is there with the same
    content is left alone, so that several models can share one.

    Raises:
        RewriterError: a location leads out of the folder, or a file with other content is in the way and `force` is not given.
    """
    if os.path.realpath(source) == os.path.realpath(target):
        return
    found = [tensor for tensor in external_data.tensors_of(model) if external_data.is_external(tensor)]
    for location in dict.fromkeys(external_data.reference(tensor).location for tensor in found):
        if os.path.exists(external_data.resolve(source, location)):
            _copy(source, target, location, force)


def _copy(source: Path, target: Path, location: str, force: bool) -> None:
    place = external_data.resolve(target, location)
    with external_data.opened(source, location) as (descriptor, size):
        if os.path.exists(place):
            if _same_content(descriptor, place, size):
                return
            if not force:
                raise RewriterError(
                    f"{place} exists with other content, which another model may read; "
                    "write this one to a folder of its own, or --force overwrites it"
                )
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RewriterError(f"{place}: {reason(error)}") from error
        write_file(place, lambda output: transfer(descriptor, 0, size, output), force)


def _same_content(descriptor: int, other: Path, size: int) -> bool:
    """Whether a file holds the same; where both have holes, which may be larger than any disk, they are not read."""
    if not other.is_file() or other.stat().st_size != size:
        return False
    with other.open("rb") as second:
        files = descriptor, second.fileno()
        for start, count in sorted({part for one in files for part in data_parts(one, 0, size)}):
            for place in range(start, start + count, _CHUNK):
                length = min(_CHUNK, start + count - place)
                if os.pread(descriptor, length, place) != os.pread(second.fileno(), length, place):
                    return False
    return True
