"""How tests run here: a slow or busy machine is no failure for hypothesis, and processes take work from each other."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rewriter.app.cli.main import OBJECTS
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.rules import Rule
from rewriter.rule_tools import load_rules as loading

settings.register_profile("rewriter", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rewriter")

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background starts with Ctrl-C ignored

# Thousands of tests write a rule file and load it. An entry for each would push the shipped rules out of the user's cache, and all
# processes that tests start would compile the shipped rules again, which takes 15 s. A test with its own folder keeps all entries.
_HOME = os.environ.get("XDG_CACHE_HOME")
_write = loading.Library.write


def _write_many(library: loading.Library, kind: str, rules: Sequence[Rule], warnings: Sequence[Diagnostic]) -> None:
    if len(rules) > 100 or os.environ.get("XDG_CACHE_HOME") != _HOME:
        _write(library, kind, rules, warnings)


loading.Library.write = _write_many  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    """The shipped rules are compiled before there are processes, each of which would compile them for itself."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        loading.load_rules()


def pytest_collection_finish() -> None:
    """The collected tests stay until the end. A garbage collection that walks through them takes 1 to 4 s of whichever test it
    interrupts, and all of them took an eighth of the time of the tests. Collections are as rare as in a command.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests take from a millisecond to many seconds; by default one process would end long before the other."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)
