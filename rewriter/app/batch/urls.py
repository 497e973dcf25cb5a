"""Which paths are no files of this machine; a module of its own, since every command asks and few go there."""

from __future__ import annotations

from collections.abc import Mapping

STDIN = "-"
STDOUT = "-"

_NAMES: dict[str, str] = {}
"""Of files that were brought from elsewhere, what people call them."""


def is_url(path: str | None) -> bool:
    """Whether a path is a URL, as s3://bucket/net.onnx or zip://net.onnx::https://example.org/models.zip."""
    return path is not None and "://" in path


def is_remote(path: str | None) -> bool:
    """Whether something is to be brought from, or to, where it is no file: a URL, or the standard input."""
    return path == STDIN or is_url(path)


def called(path: str, name: str) -> None:
    """Remembers what a file stands for."""
    _NAMES[path] = name


def with_names(text: str, names: Mapping[str, str] = _NAMES) -> str:
    """What is said of files that were brought here is said of what they stand for."""
    for path, name in names.items():
        text = text.replace(path, name)
    return text
