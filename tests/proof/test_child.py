"""Calls in a forked child: their answers, a crash, an end after a time."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from rewriter.proof.judges import child
from rewriter.proof.judges.child import Child, Crashed, NoAnswer, OutOfMemory, TooSlow

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
    if what == "slow":
        time.sleep(1)
    if what == "memory":
        return str(len(bytearray(4 << 30)))
    return f"{what} {len(SEEN)}"


@pytest.fixture
def server() -> Iterator[Child]:
    made = Child(call)
    yield made
    made.close()


def test_one_child_answers_one_request_after_the_other(server: Child) -> None:
    assert [server.ask(5.0, "grün"), server.ask(5.0, "")] == ["grün 1", " 2"]
    assert SEEN == []  # what the call changes, changes in the child


def test_a_long_request_has_a_long_answer(server: Child) -> None:
    assert server.ask(5.0, "x" * 5_000_000) == "x" * 5_000_000 + " 1"


def test_a_large_argument_is_not_sent(server: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child that is made for it has it already, and stays."""
    first = server.ask(5.0, "number")
    monkeypatch.setattr(child, "LARGE", 3)
    monkeypatch.setattr(pickle, "dumps", None)
    with pytest.raises(Crashed):  # it cannot pickle the answer, but it had the question
        server.ask(5.0, b"large")
    monkeypatch.undo()
    assert server.ask(5.0, "number") != first


def test_a_child_that_grew_is_worn(server: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.ask(5.0, "a") and not server.worn
    server.close()
    monkeypatch.setattr(child, "REQUESTS", 2)
    assert server.ask(5.0, "a") and not server.worn
    assert server.ask(5.0, "a") and server.worn
    server.close()
    assert server.ask(5.0, "a") and not server.worn


def test_memory_has_a_limit(server: Child) -> None:
    with pytest.raises(OutOfMemory, match=r"needs more than the memory limit of 1 GiB"):
        server.ask(20.0, "memory", most=1 << 30)
    assert server.ask(5.0, "again") == "again 1"


def test_it_does_not_outlive_its_limit_though_nobody_ends_it(server: Child) -> None:
    """As when the parent was killed in the midst of a request."""
    number = int(server.ask(5.0, "number"))
    connection = server._connected(None)
    child._send(connection, 0, pickle.dumps((0.1, None, ("hang",))))
    assert os.WTERMSIG(os.waitpid(number, 0)[1]) == signal.SIGALRM
    server._socket = None


def test_an_interrupted_request_leaves_no_answer_for_the_next(server: Child) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            server.ask(20.0, "slow")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert server.ask(5.0, "next") == "next 1"


@pytest.mark.parametrize(("how", "told"), [("crash", "it ends the process (SIGFPE)"), ("exit", "it ends the process (7)")])
def test_a_crash_ends_the_child_only_and_the_next_request_has_another(server: Child, how: str, told: str) -> None:
    with pytest.raises(NoAnswer) as found:
        server.ask(5.0, how)
    assert str(found.value) == told
    assert server.ask(5.0, "again") == "again 1"


def test_a_child_that_hangs_is_ended(server: Child) -> None:
    with pytest.raises(TooSlow, match=r"did not answer within 0\.2 s"):
        server.ask(0.2, "hang")
    assert server.ask(5.0, "again") == "again 1"


def test_nothing_is_left(server: Child) -> None:
    number = int(server.ask(5.0, "number") or "")
    server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_threads_get_their_own_answers(server: Child) -> None:
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        for _ in range(20):
            found[number] = server.ask(20.0, f"t{number}").split()[0]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"t{number}" for number in range(6)}
