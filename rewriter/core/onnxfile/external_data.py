"""Weights next to the model: the files that a tensor may name, and reading from them without trusting the model.

A model comes from a stranger. The location, offset and length of an external tensor are text in it. A location counts from the
model's folder, never from the current directory, and must stay inside: no `..`, no absolute path, no symbolic link that leads
out, no device or pipe, and no hard link whose other name lies elsewhere. A hard link has no direction, so a file with several
names is accepted only when all of them are found in the model's folder (as a de-duplicating tool leaves them); otherwise the
data could be any file of this file system.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from rewriter.core.errors import RewriterError, reason
from rewriter.core.onnxfile.files import data_parts, transfer, write_file
from rewriter.core.record import record

if TYPE_CHECKING:
    import onnx

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
MOST_CHARACTERS = 4096
"""The longest location; no system opens a file by a longer one."""

_MOST_ENTRIES = 10_000  # of a folder walked for the other names of a hard link


@record(frozen=True, slots=True)
class Reference:
    """The place of a tensor's data: file relative to the model's folder, first byte, number of bytes (None: not written)."""

    location: str
    offset: int
    length: int | None


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the data of this tensor stand in another file."""
    return bool(tensor.data_location == tensor.EXTERNAL)


def reference(tensor: onnx.TensorProto) -> Reference:
    """The place of an external tensor's data; RewriterError if the entries contradict each other or are no numbers."""
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if not isinstance(entry.key, str) or not isinstance(entry.value, str):
            raise RewriterError(f"{_who(tensor)}: its external data entries are not valid UTF-8")
        if entry.key in entries:
            raise RewriterError(f"{_who(tensor)}: its external data has the key {entry.key!r} twice")
        entries[entry.key] = entry.value
    location = entries.get("location", "")
    if not location:
        raise RewriterError(f"{_who(tensor)}: its external data names no file")
    numbers = {}
    for key in ("offset", "length"):
        text = entries.get(key)
        if text is not None and not _NUMBER.fullmatch(text):
            raise RewriterError(f"{_who(tensor)}: the {key} of its external data is {text[:40]!r}, not a number of bytes")
        numbers[key] = None if text is None else int(text)
    return Reference(location, numbers["offset"] or 0, numbers["length"])


def refer(tensor: onnx.TensorProto, **entries: object) -> None:
    """Makes a tensor refer to data in another file, by the entries `location`, `offset` and `length`, and perhaps others."""
    tensor.data_location = tensor.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))


def read(tensor: onnx.TensorProto, size: int, folder: Path | None) -> bytes:
    """The `size` bytes of an external tensor.

    Raises RewriterError when the model's folder is unknown, the file is missing or lies outside, or offset, length and size
    disagree.
    """
    place = reference(tensor)
    if folder is None:
        raise RewriterError(f"{_who(tensor)}: its data are in {place.location!r}, but the folder of the model is not known")
    if place.length is not None and place.length != size:
        raise RewriterError(f"{_who(tensor)}: {place.length} bytes of external data, but its type and shape need {size}")
    with opened(folder, place.location) as (descriptor, length):
        if place.offset + size > length:
            raise RewriterError(
                f"{_who(tensor)}: its data end at byte {place.offset + size}, but {place.location!r} has only {length} bytes"
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            file.seek(place.offset)
            data = file.read(size)
    if len(data) != size:
        raise RewriterError(f"{_who(tensor)}: {place.location!r} became shorter while it was read")
    return data


@contextmanager
def opened(folder: Path, location: str) -> Iterator[tuple[int, int]]:
    """Opens a data file of the model for reading: (descriptor, size). RewriterError when it is missing or not allowed."""
    path = resolve(folder, location)
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise RewriterError(f"external data {location!r}: {reason(error)} (looked in {folder})") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise RewriterError(f"external data {location!r} is not a regular file")
        if found.st_nlink > 1 and _names_inside(folder, found) < found.st_nlink:
            raise RewriterError(
                f"external data {location!r} is a hard link to a file outside the model's folder; use a copy instead"
            )
        yield descriptor, found.st_size
    finally:
        os.close(descriptor)


def resolve(folder: Path, location: str) -> Path:
    """The real path of a location inside the model's folder; RewriterError when it leads out. The file need not exist."""
    if len(location) > MOST_CHARACTERS:
        raise RewriterError(f"external data {location[:40]!r}... is no usable file name: it has {len(location):,} characters")
    parts = {*PurePosixPath(location).parts, *PureWindowsPath(location).parts}
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).anchor
    if not location or "\0" in location or ".." in parts or absolute:
        raise RewriterError(f"external data {location!r} leads out of the model's folder")
    try:
        root = Path(os.path.realpath(folder))
        path = Path(os.path.realpath(root / location))
    except (OSError, ValueError) as error:
        raise RewriterError(f"external data {location!r} is no usable file name") from error
    if path == root:
        raise RewriterError(f"external data {location!r} is the model's folder, which is not a file")
    if root not in path.parents:
        raise RewriterError(f"external data {location!r} leads out of the model's folder through a symbolic link")
    return path


def _names_inside(folder: Path, wanted: os.stat_result) -> int:
    """How many names of this file lie in the folder or below, as far as a bounded walk shows."""
    names, left = 0, _MOST_ENTRIES
    waiting = [str(folder)]
    while waiting and left > 0:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.inode() == wanted.st_ino and entry.stat(follow_symlinks=False).st_dev == wanted.st_dev:
                        names += 1
                    if left <= 0:
                        break
        except OSError:
            continue
    return names


def tensors_of(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a model that could have data elsewhere: initializers and attributes, in all subgraphs and functions."""
    graphs: list[onnx.GraphProto] = [model.graph]
    graphs.extend(part for info in model.training_info for part in (info.initialization, info.algorithm))
    attributes: list[onnx.AttributeProto] = []
    for function in model.functions:
        attributes.extend(function.attribute_proto)
        attributes.extend(attribute for node in function.node for attribute in node.attribute)
    yield from tensors_in(graphs, attributes)


def references(model: onnx.ModelProto) -> Iterator[Reference]:
    """The places of all data of a model in other files. Raises RewriterError as `reference` does."""
    return (reference(tensor) for tensor in tensors_of(model) if is_external(tensor))


def tensors_in(graphs: list[onnx.GraphProto], attributes: list[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    """The same for some graphs and attributes; the lists are used up."""
    while graphs or attributes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            attributes.extend(attribute for node in graph.node for attribute in node.attribute)
            continue
        attribute = attributes.pop()
        yield from attribute.tensors
        if attribute.HasField("t"):
            yield attribute.t
        for sparse in (*attribute.sparse_tensors, *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])):
            yield from (sparse.values, sparse.indices)
        graphs.extend(attribute.graphs)
        if attribute.HasField("g"):
            graphs.append(attribute.g)


def _who(tensor: onnx.TensorProto) -> str:
    return f"tensor {tensor.name!r}"


# Taking the data files of a model along when the model is written to another folder.

_CHUNK = 1 << 22


def may_refer(data: bytes) -> bool:
    """Whether a serialised model could refer to data files: it then contains the key of such a reference literally."""
    return b"location" in data


def copy_data_files(model: onnx.ModelProto, source: Path, target: Path, force: bool) -> None:
    """Copies every data file the model refers to from one folder into another, to the same relative place.

    The system copies the files, and shares their blocks if the file system can. They are not hard-linked: later edits of one
    would change both, onnx itself rejects data with several names, and this program rejects data with names elsewhere.
    A missing file is not copied: the new model lacks it as the old one does. An existing file with the same content is left
    alone, so that several models can share one.

    Raises:
        RewriterError: a location leads out of the folder, or a file with other content is in the way and `force` is False.
    """
    if os.path.realpath(source) == os.path.realpath(target):
        return
    for location in dict.fromkeys(place.location for place in references(model)):
        if os.path.exists(resolve(source, location)):
            _copy(source, target, location, force)


def _copy(source: Path, target: Path, location: str, force: bool) -> None:
    place = resolve(target, location)
    with opened(source, location) as (descriptor, size):
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
    """Whether a file has the same content. Common holes, which may be larger than any disk, are not read."""
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
