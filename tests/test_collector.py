"""What models leave behind is collected between models, though their objects count as old at once."""

from __future__ import annotations

import gc
import weakref

import pytest

from rewriter.core.isolation import budget


class Circle:
    def __init__(self) -> None:
        self.self = self


def test_graphs_of_earlier_models_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_object_count", 0)
    monkeypatch.setattr(budget, "MANY", 1000)
    gc.collect()
    with budget.collector_off():
        last = [weakref.ref(Circle()) for _ in range(2000)]
    assert all(one() is not None for one in last)
    budget.collect_between_models()
    assert not any(one() is not None for one in last) and budget._object_count == 0
