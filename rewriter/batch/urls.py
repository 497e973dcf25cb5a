"""Which paths are no files of this machine; a module of its own, since every command asks and few go there."""

from __future__ import annotations

STDIN = "-"


def is_url(path: str | None) -> bool:
    """Whether a path is a URL, as s3://bucket/net.onnx or zip://net.onnx::https://example.org/models.zip."""
    return path is not None and "://" in path


def is_remote(path: str | None) -> bool:
    """Whether something is to be brought from, or to, where it is no file: a URL, or the standard input."""
    return path == STDIN or is_url(path)
