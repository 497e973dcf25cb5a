"""Keeping the garbage collector from walking a large model again and again while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 500_000
"""Objects of models, which are circular, as graphs are: so many may become garbage before a collection."""

FROZEN = 1000
"""Objects that may be frozen without a request: Python 3.12 itself freezes some hundreds at its start."""

_object_count = 0


@contextmanager
def collector_off(*, circular: bool = True) -> Iterator[None]:
    """No collections inside; afterwards as before. One full collection of a model of 100,000 nodes takes about a second.

    Objects made inside count as old at once: freezing and thawing moves them there without a walk. If the program keeps frozen
    objects, they stay frozen, and the walk is made. Objects that are not `circular` are freed without a collection.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_freeze_count() < FROZEN:
                global _object_count
                _object_count += gc.get_count()[0] if circular else 0
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def collect_between_models() -> None:
    """Collects garbage of earlier models, once it may be much: Python does not collect objects that count as old at once."""
    global _object_count
    if _object_count > MANY:
        gc.collect()
        _object_count = 0
