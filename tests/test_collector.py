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
    monkeypatch.setattr(budget, "FEW", 0)
    frozen = gc.get_freeze_count()
    monkeypatch.setattr(budget, "FROZEN", frozen + 1000)
    gc.collect()
    with budget.collector_off():  # thaws what conftest.py froze
        last = [weakref.ref(Circle()) for _ in range(2000)]
    assert all(one() is not None for one in last)
    budget.collect_between_models()
    assert not any(one() is not None for one in last) and budget._object_count == 0
    if frozen > 1000:
        gc.freeze()


def test_objects_that_a_program_keeps_frozen_stay_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "FEW", 0)
    monkeypatch.setattr(budget, "FROZEN", 0)
    frozen = gc.get_freeze_count()
    with budget.collector_off():
        assert len([Circle() for _ in range(2000)]) == 2000 and not gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() == frozen


def test_frozen_objects_are_not_counted_for_a_few_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting millions takes 30 ms, and each small rule file or model would pay for it."""
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("the frozen objects were counted"))
    monkeypatch.setattr(budget, "FEW", 1000)
    gc.collect()
    earlier = [Circle() for _ in range(2000)]  # as in a command, which seldom collects: what was made before does not count
    with budget.collector_off():
        assert earlier and Circle()
