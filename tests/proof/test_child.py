"""Calls in a forked child: their answers, a crash, an end after a time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from rewriter.proof.models import child
from rewriter.proof.models.child import Child

pytestmark = pytest.mark.skipif(not child.possible(), reason="this system cannot fork")

SEEN: list[str] = []


def call(what: str) -> str:
    SEEN.append(what)
    if what == "crash":
        os.kill(os.getpid(), signal.SIGFPE)
    if what == "number":
        return str(os.getpid())
    if what == "exit":
        os._exit(7)
    if what == "hang":
        time.sleep(60)
    return f"{what} {len(SEEN)}"


@pytest.fixture
def server() -> Iterator[Child]:
    made = Child(call)
    yield made
    made.close()


def test_one_child_answers_one_request_after_the_other(server: Child) -> None:
    assert [server.ask(5.0, "grün"), server.ask(5.0, "")] == ["grün 1", " 2"]
    assert SEEN == []  # what the call changes, changes in the child


def test_a_long_answer_is_cut(server: Child) -> None:
    assert server.ask(5.0, "x" * (child.MOST + 1)) == "x" * child.MOST


@pytest.mark.parametrize(("how", "told"), [("crash", "it ends the process (SIGFPE)"), ("exit", "it ends the process (7)")])
def test_a_crash_ends_the_child_only_and_the_next_request_has_another(server: Child, how: str, told: str) -> None:
    assert server.ask(5.0, how) == told
    assert server.ask(5.0, "again") == "again 1"


def test_a_child_that_hangs_is_ended(server: Child) -> None:
    assert server.ask(0.2, "hang") is None
    assert server.ask(5.0, "again") == "again 1"


def test_nothing_is_left(server: Child) -> None:
    number = int(server.ask(5.0, "number") or "")
    server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
