"""Models to work on, from files or messages. Each can be read again, since a surgery edits the model that it gets."""

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
    """A model from a user, which can be read again.

    Attributes:
        name: the model's name in messages.
        path: the file; None for a message.
    """

    def __init__(self, source: ModelSource, name: str = "", folder_handle: object = None) -> None:
        """`folder_handle` is kept alive as long as the file is needed, such as a temporary folder that contains it."""
        self._folder_handle = folder_handle
        self._proto = source if isinstance(source, onnx.ModelProto) else None
        self.path = None if isinstance(source, onnx.ModelProto) else Path(source)
        self.name = name or ("the model" if self.path is None else str(self.path))
        self._digest: str | None = None

    @property
    def file(self) -> Path:
        """The file of a model that is an argument of a command."""
        assert self.path is not None
        return self.path

    def read(self) -> Model:
        """A new copy of the model. Raises RewriterError if the file is missing or no model."""
        from rewriter.core.graph.model import Model, load

        if self.path is not None:
            return load(self.path)
        assert self._proto is not None
        return Model.from_proto(self._proto)

    def digest(self, model: Model | None = None) -> str:
        """SHA-256 of the file or message, for a record; `model` is the model to be written: the digest may depend on it."""
        if self._proto is not None:
            return hashlib.sha256(self._proto.SerializeToString(deterministic=True)).hexdigest()
        if model is not None and model.path is not None and self._digest is None:
            return model.digest_to_record()
        if self._digest is None:
            self._digest = self.read().read_digest()
        return self._digest


# Every message in a model, in every field: some texts are in places that no walk over graphs and nodes reaches.
#
# Tensors inside attributes have doc strings, defaults of functions have them, and a newer ONNX may give them to anything.


def messages(whole: Message, leaves: tuple[type[Message], ...] = ()) -> Iterator[Message]:
    """A message and all messages in it, the outer ones first; the contents of `leaves` are not visited.

    The messages may be changed: messages that are removed are not visited.
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
    """Removes the fields of these names from a message and all messages in it."""
    wanted = tuple(names)
    for message in messages(whole):
        for name in wanted:
            if name in message.DESCRIPTOR.fields_by_name:
                message.ClearField(name)
