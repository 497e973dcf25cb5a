"""Calls in a forked child: their answers, a crash, an end after a time."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rewriter.core.isolation import child
from rewriter.core.isolation.child import Child, Crash, NoAnswer, OutOfMemory, TooSlow

pytestmark = pytest.mark.skipif(not child.possible(), reason="this system cannot fork")

SEEN: list[str] = []

PATIENCE = 600.0
"""Seconds for an answer that comes at once, unless the machine is busy."""


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
    if what.startswith("interrupt"):
        os.kill(int(what.split()[1]), signal.SIGUSR1)
        time.sleep(60)
    if what == "mask":
        what = str(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    if what == "memory":
        return str(len(bytearray(4 << 30)))
    return f"{what} {len(SEEN)}"


@pytest.fixture
def server() -> Iterator[Child]:
    made = Child(call)
    yield made
    made.close()


def test_one_child_answers_one_request_after_the_other(server: Child) -> None:
    assert [server.ask(PATIENCE, "grün"), server.ask(PATIENCE, "")] == ["grün 1", " 2"]
    assert SEEN == []  # what the call changes, changes in the child


def test_a_long_request_has_a_long_answer(server: Child) -> None:
    assert server.ask(PATIENCE, "x" * 5_000_000) == "x" * 5_000_000 + " 1"


def test_a_large_argument_is_not_sent(server: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child that is made for it has it already, and stays."""
    first = server.ask(PATIENCE, "number")
    monkeypatch.setattr(child, "LARGE", 3)
    monkeypatch.setattr(pickle, "dumps", None)
    with pytest.raises(Crash):  # it cannot pickle the answer, but it had the question
        server.ask(PATIENCE, b"large")
    monkeypatch.undo()
    assert server.ask(PATIENCE, "number") != first


def test_a_child_that_grew_is_worn(server: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.ask(PATIENCE, "a") and not server.worn
    server.close()
    monkeypatch.setattr(child, "REQUESTS", 2)
    assert server.ask(PATIENCE, "a") and not server.worn
    assert server.ask(PATIENCE, "a") and server.worn
    server.close()
    assert server.ask(PATIENCE, "a") and not server.worn


def test_memory_has_a_limit(server: Child) -> None:
    with pytest.raises(OutOfMemory, match=r"needs more than the memory limit of 1 GiB"):
        server.ask(PATIENCE, "memory", most=1 << 30)
    assert server.ask(PATIENCE, "again") == "again 1"


def test_it_does_not_outlive_its_limit_though_nobody_ends_it(server: Child) -> None:
    """As when the parent was killed in the midst of a request."""
    number = int(server.ask(PATIENCE, "number"))
    connection = server._connected(None)
    child._send(connection, 0, pickle.dumps((0.1, None, ("hang",))))
    assert os.WTERMSIG(os.waitpid(number, 0)[1]) == signal.SIGALRM
    server._socket = None


@pytest.fixture
def interrupted() -> Iterator[None]:
    """SIGUSR1 interrupts, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interrupted")
def test_an_interrupted_request_leaves_no_answer_for_the_next(server: Child) -> None:
    """The child itself interrupts its parent: then the parent waits for the answer, however busy the machine is."""
    with pytest.raises(KeyboardInterrupt):
        server.ask(PATIENCE, f"interrupt {os.getpid()}")
    assert server.ask(PATIENCE, "next") == "next 1"


HOOKS: dict[str, Callable[[], object]] = {}
"""What a test has `os.fork` do."""

os.register_at_fork(
    before=lambda: HOOKS.get("before", int)(),
    after_in_parent=lambda: HOOKS.get("parent", int)(),
    after_in_child=lambda: HOOKS.get("child", int)(),
)


@pytest.fixture
def hooks() -> Iterator[dict[str, Callable[[], object]]]:
    yield HOOKS
    HOOKS.clear()


def raise_here() -> None:
    signal.raise_signal(signal.SIGUSR1)


JOBS: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
"""What the other thread does; None ends it."""


def raise_in_another_thread() -> None:
    """The system gives a signal to any thread that does not block it, and Python runs the handler in the main thread."""
    done = threading.Semaphore(0)
    JOBS.put(raise_here)
    JOBS.put(done.release)
    done.acquire()


@pytest.fixture
def other_thread() -> Iterator[None]:
    def serve() -> None:
        while (job := JOBS.get()) is not None:
            job()

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    JOBS.put(None)
    thread.join()


@pytest.mark.usefixtures("interrupted", "other_thread")
@pytest.mark.parametrize("moment", ["before", "parent"])
@pytest.mark.parametrize("interrupt", [raise_here, raise_in_another_thread])
def test_an_interruption_while_the_child_is_forked_is_neither_lost_nor_keeps_a_lock(
    server: Child, hooks: dict[str, Callable[[], object]], moment: str, interrupt: Callable[[], None]
) -> None:
    """Hooks of `os.fork` take locks, as those of `logging` do, and what is raised in a hook is swallowed."""
    lock, armed = threading.Lock(), [moment]

    def before() -> None:
        if "before" in armed:
            armed.clear()
            interrupt()
        lock.acquire()

    def parent() -> None:
        if "parent" in armed:
            armed.clear()
            interrupt()
        lock.release()

    hooks.update(before=before, parent=parent)
    with pytest.raises(KeyboardInterrupt):
        server.ask(PATIENCE, "first")
    assert not lock.locked() and not armed
    assert server.ask(PATIENCE, "next") == "next 1"


@pytest.mark.usefixtures("interrupted")
def test_an_interrupted_request_that_the_child_was_forked_with_leaves_no_answer(
    server: Child, hooks: dict[str, Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "LARGE", 3)
    hooks["parent"] = lambda: (hooks.clear(), raise_here())
    with pytest.raises(KeyboardInterrupt):
        server.ask(PATIENCE, b"large")
    assert server.ask(PATIENCE, "next") == "next 1"


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_new_child_hears_of_no_signal(server: Child, monkeypatch: pytest.MonkeyPatch, in_thread: bool) -> None:
    """A Ctrl-C is sent to all processes of a terminal; the child would go on with what its parent was about to do."""
    serve = child._serve

    def interrupted_serve(*arguments: Any, **options: Any) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            os._exit(9)
        serve(*arguments, **options)

    monkeypatch.setattr(child, "_serve", interrupted_serve)
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(server.ask(PATIENCE, "first")))
    (thread.start if in_thread else thread.run)()
    if in_thread:
        thread.join()
    assert answers == ["first 1"]


def test_a_child_hears_of_signals_though_its_parent_blocks_them(server: Child) -> None:
    """Its time is limited by one of them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        assert server.ask(PATIENCE, "mask") == "set() 1"
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize(("how", "told"), [("crash", "crashed (SIGFPE)"), ("exit", "crashed (7)")])
def test_a_crash_ends_the_child_only_and_the_next_request_has_another(server: Child, how: str, told: str) -> None:
    with pytest.raises(NoAnswer) as found:
        server.ask(PATIENCE, how)
    assert str(found.value) == told
    assert server.ask(PATIENCE, "again") == "again 1"


def test_a_child_that_hangs_is_ended(server: Child) -> None:
    with pytest.raises(TooSlow, match=r"did not answer within 0\.2 s"):
        server.ask(0.2, "hang")
    assert server.ask(PATIENCE, "again") == "again 1"


def test_nothing_is_left(server: Child) -> None:
    number = int(server.ask(PATIENCE, "number") or "")
    server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_threads_get_their_own_answers(server: Child) -> None:
    found: dict[int, str] = {}

    def ask(number: int) -> None:
        for _ in range(20):
            found[number] = server.ask(PATIENCE, f"t{number}").split()[0]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"t{number}" for number in range(6)}
