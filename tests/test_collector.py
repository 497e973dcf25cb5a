"""What models leave behind is collected between models, though their objects count as old at once."""

from __future__ import annotations

import gc
import weakref

import pytest

from rewriter.core import collector


class Circle:
    def __init__(self) -> None:
        self.self = self


def test_graphs_of_earlier_models_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_object_count", 0)
    monkeypatch.setattr(collector, "MANY", 1000)
    gc.collect()
    with collector.collector_off():
        last = [weakref.ref(Circle()) for _ in range(2000)]
    assert all(one() is not None for one in last)
    collector.collect_between_models()
    assert not any(one() is not None for one in last) and collector._object_count == 0
