"""Every message in a model, whatever holds it: texts are in places that no walk over graphs and nodes comes to.

Tensors inside attributes have doc strings, defaults of functions have them, and a newer ONNX may give them to anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.message import Message  # type: ignore[import-untyped]


def messages(whole: Message) -> Iterator[Message]:
    """A message and all that lie in it, the outer ones first. They may be changed: what is taken out of one is not visited."""
    waiting = [whole]
    while waiting:
        message = waiting.pop()
        yield message
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
