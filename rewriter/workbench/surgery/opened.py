"""Models to work on, from files or from messages; they may have to be read again, since a surgery edits what it is given."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from rewriter.core.graph.model import Model


StrPath = os.PathLike[str] | str
ModelSource = StrPath | onnx.ModelProto


class Opened:
    """A model that somebody gave, and that can be read anew.

    Attributes:
        name: what people are told it is.
        path: the file; None for a message.
    """

    def __init__(self, source: ModelSource, name: str = "", folder_handle: object = None) -> None:
        """`folder_handle` is what has to stay as long as the file is needed, as a folder that it was brought into."""
        self._folder_handle = folder_handle
        self._proto = source if isinstance(source, onnx.ModelProto) else None
        self.path = None if isinstance(source, onnx.ModelProto) else Path(source)
        self.name = name or ("the model" if self.path is None else str(self.path))
        self._digest: str | None = None

    @property
    def file(self) -> Path:
        """The file, which the models that commands are given have."""
        assert self.path is not None
        return self.path

    def read(self) -> Model:
        """A model of one's own. Raises RewriterError when the file is missing or no model."""
        from rewriter.core.graph.model import Model, load

        if self.path is not None:
            return load(self.path)
        assert self._proto is not None
        return Model.from_proto(self._proto)

    def digest(self, model: Model | None = None) -> str:
        """SHA-256 of what is read, for a record; with the model that is going to be written it may be known only then."""
        if self._proto is not None:
            return hashlib.sha256(self._proto.SerializeToString(deterministic=True)).hexdigest()
        if model is not None and model.path is not None and self._digest is None:
            return model.digest_to_record()
        if self._digest is None:
            self._digest = self.read().read_digest()
        return self._digest


# Every message in a model, whatever holds it: texts are in places that no walk over graphs and nodes comes to.
#
# Tensors inside attributes have doc strings, defaults of functions have them, and a newer ONNX may give them to anything.


def messages(whole: Message, leaves: tuple[type[Message], ...] = ()) -> Iterator[Message]:
    """A message and all that lie in it, the outer ones first; of `leaves` what lies in them is not visited.

    They may be changed: what is taken out of one is not visited.
    """
    waiting = [whole]
    while waiting:
        message = waiting.pop()
        yield message
        if isinstance(message, leaves):
            continue
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                waiting.extend([value] if isinstance(value, Message) else value)


def clear(whole: Message, names: Iterable[str]) -> None:
    """Takes the fields of these names out of a message and all that lie in it."""
    wanted = tuple(names)
    for message in messages(whole):
        for name in wanted:
            if name in message.DESCRIPTOR.fields_by_name:
                message.ClearField(name)
