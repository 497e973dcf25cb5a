"""Processes: the order of results, and what becomes of a job whose process dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rewriter.app.batch.processes import run_all
from rewriter.app.batch.work import Job, Outcome, Rewriting, Work
from rewriter.core.isolation.child import heard
from rewriter.core.language.rules import RuleSet
from tests.cli.workers import mortal, obedient

WORK = Work(Rewriting(RuleSet()))


def test_results_come_in_the_order_of_the_jobs(tmp_path: Path) -> None:
    jobs = [Job(f"m{i}", str(tmp_path / "mark")) for i in range(8)]
    done: list[str] = []
    outcomes = list(run_all(jobs, WORK, 2, lambda outcome: done.append(outcome.path), obedient))
    assert [outcome.path for outcome in outcomes] == [job.path for job in jobs]
    assert sorted(done) == [job.path for job in jobs]
    assert done[0] != "m0"


def test_a_process_that_dies_costs_its_own_job() -> None:
    jobs = [Job("a"), Job("kill", target="copied"), Job("b"), Job("exit", target="lost"), Job("kill without target"), Job("c")]
    outcomes = {outcome.path: outcome for outcome in run_all(jobs, WORK, 2, worker=mortal)}
    assert list(outcomes) == [job.path for job in jobs]
    assert {path for path, outcome in outcomes.items() if not outcome.error} == {"a", "b", "c"}
    assert outcomes["kill"] == Outcome(
        "kill", output="copied", error="the process that worked on it was killed (SIGKILL, out of memory?)"
    )
    assert outcomes["exit"].error == "the process that worked on it ended (exit code 7)"
    assert outcomes["exit"].output is None
    assert outcomes["kill without target"].output is None


def test_one_process_is_this_process() -> None:
    outcomes = run_all([Job("a"), Job("b")], WORK, 1, worker=lambda job, work: Outcome(job.path, source="here"))
    assert [outcome.source for outcome in outcomes] == ["here", "here"]


def test_more_processes_than_jobs() -> None:
    assert [o.path for o in run_all([Job("a"), Job("b")], WORK, 5, worker=obedient)] == ["a", "b"]


def test_a_signal_that_also_ends_the_server_of_processes_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` and service managers send SIGTERM to each process of a group."""
    with heard() as interruption:
        interruption.waited = True

        def ended(*arguments: object) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            raise EOFError("unexpected EOF")

        monkeypatch.setattr("rewriter.core.isolation.process.Process", ended)
        assert list(run_all([Job("a"), Job("b")], WORK, 2, worker=obedient, interruption=interruption)) == []
        assert interruption.number == signal.SIGTERM
