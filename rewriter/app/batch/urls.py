"""Which paths are no files of this machine. Every command imports this module; few commands need `remote`."""

from __future__ import annotations

from collections.abc import Mapping

STDIN = "-"
STDOUT = "-"

_NAMES: dict[str, str] = {}
"""The names that users know for downloaded files."""


def is_url(path: str | None) -> bool:
    """Whether a path is a URL, as s3://bucket/net.onnx or zip://net.onnx::https://example.org/models.zip."""
    return path is not None and "://" in path


def is_remote(path: str | None) -> bool:
    """Whether a path is no file, so that the model has to be transferred: a URL, or the standard input."""
    return path == STDIN or is_url(path)


def called(path: str, name: str) -> None:
    """Remembers the name that users know for a file."""
    _NAMES[path] = name


def with_names(text: str, names: Mapping[str, str] = _NAMES) -> str:
    """A text with the names that users know in place of the paths of downloaded files."""
    for path, name in names.items():
        text = text.replace(path, name)
    return text
