"""How tests run here: a slow or busy machine is no failure for hypothesis, and processes take work from each other."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("rewriter", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rewriter")

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background starts with Ctrl-C ignored


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests take from a millisecond to many seconds; by default one process would end long before the other."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)
