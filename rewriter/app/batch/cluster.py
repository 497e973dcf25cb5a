"""Jobs on a Dask cluster: each task is a few models, worked on in a child process of the worker as in a pool of this machine.

If a worker is lost, Dask moves its task to another worker. The lost worker may already have written a complete result with the
same bytes, so tasks may replace files. Files that existed before the call are sorted out first.
"""

from __future__ import annotations

import multiprocessing.process
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from rewriter import __version__
from rewriter.app.batch.job import process
from rewriter.app.batch.jobs import has_result
from rewriter.app.batch.processes import Pool, in_order
from rewriter.app.batch.work import Job, Outcome, Work
from rewriter.core.errors import RewriterError, install
from rewriter.core.isolation.child import Interruption
from rewriter.core.record import replace

LARGEST = 32
"""Models of a task. If a worker is lost, this many are done again."""

ROUNDS = 4
"""The fewest tasks for each worker: with many tasks, no worker waits long for another one at the end."""

PATIENCE = 30
"""Seconds for a scheduler to answer."""


def run_on_cluster(
    jobs: Sequence[Job],
    work: Work,
    scheduler: str,
    processes: int,
    done: Callable[[Outcome], object],
    interruption: Interruption | None = None,
) -> Iterator[Outcome]:
    """The outcomes of jobs, in their order, as `pool.run_all` has them.

    Args:
        jobs: what to do; paths mean the same files on all machines.
        work: what all of them share.
        scheduler: "dask://HOST:PORT", or "local" for workers of this machine.
        processes: the number of workers, if they run on this machine.
        done: called with each outcome as soon as it is there.
        interruption: ends the work after a signal.

    Raises:
        RewriterError: Dask is missing, no scheduler answers, or its workers have another version of this package.
    """
    if any(job.target == job.path for job in jobs):
        raise RewriterError("--scheduler cannot repair in place: a lost worker's models are done again; use --out")
    if any(job.path == "-" for job in jobs):
        raise RewriterError("--scheduler cannot read the standard input of this machine")
    client = _client(scheduler, processes)
    try:
        yield from in_order(_groups(client, jobs, work, interruption), done)
    finally:
        client.close()
        if client.cluster is not None:
            client.cluster.close()


def _client(scheduler: str, processes: int) -> Any:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise RewriterError(f"--scheduler needs Dask; install it with: {install('cluster')}") from None
    if scheduler == "local":
        return Client(LocalCluster(n_workers=processes, threads_per_worker=1, dashboard_address=None))
    kind, _, address = scheduler.partition("://")
    if kind != "dask" or not address:
        raise RewriterError(f"--scheduler {scheduler}: expected dask://HOST:PORT or local")
    try:
        client = Client(f"tcp://{address}", timeout=PATIENCE)
        client.wait_for_workers(1, timeout=PATIENCE)
        versions = set(client.run(_version).values())
    except (OSError, TimeoutError, ValueError) as error:
        raise RewriterError(f"--scheduler {scheduler}: no workers answer: {' '.join(str(error).split())[:200]}") from None
    except ImportError:
        raise RewriterError(f"--scheduler {scheduler}: rewriter is not installed on all workers") from None
    if versions != {__version__}:
        client.close()
        found = ", ".join(sorted(versions))
        raise RewriterError(f"--scheduler {scheduler}: the workers have rewriter {found}, and this is {__version__}")
    return client


def _version() -> str:
    return __version__


def _groups(
    client: Any, jobs: Sequence[Job], work: Work, interruption: Interruption | None
) -> Iterator[list[tuple[int, Outcome]]]:
    from distributed import wait

    there = [not work.writing.force and has_result(job) for job in jobs]
    yield [(number, process(job, work)) for number, job in enumerate(jobs) if there[number]]  # which says so, and no more
    left = [number for number in range(len(jobs)) if not there[number]]
    threads = sum(client.nthreads().values()) or 1
    size = max(1, min(LARGEST, len(left) // (ROUNDS * threads)))
    shared = client.scatter(pickle.dumps(_replacing(work)), broadcast=True)  # bytes: Dask looks into anything else
    chunks = [left[start : start + size] for start in range(0, len(left), size)]
    tasks = {}
    for chunk in chunks:
        pickled_jobs = pickle.dumps([jobs[number] for number in chunk])
        tasks[client.submit(_worked, pickled_jobs, shared, os.getcwd(), pure=False)] = chunk
    while tasks and not (interruption is not None and interruption.number):
        try:
            ready = wait(list(tasks), timeout=0.5, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            continue
        for task in ready:
            chunk = tasks.pop(task)
            yield list(zip(chunk, _result(task, [jobs[number] for number in chunk]), strict=True))
            task.release()
    client.cancel(list(tasks))


def _replacing(work: Work) -> Work:
    return work.everywhere(lambda one: replace(one, writing=replace(one.writing, force=True)))


def _result(task: Any, jobs: Sequence[Job]) -> list[Outcome]:
    try:
        found: list[Outcome] = pickle.loads(task.result())
    except Exception as error:  # of Dask: it gave up the task, which several workers did not survive
        reason = " ".join(str(error).split())[:300]
        return [Outcome(job.path, error=f"the cluster cancelled it: {type(error).__name__}: {reason}") for job in jobs]
    return found


def _worked(pickled_jobs: bytes, shared: bytes, folder: str) -> bytes:
    """Does a task in a thread of a worker: passes its models to a process that may be ended at any time."""
    jobs: list[Job] = pickle.loads(pickled_jobs)
    work: Work = pickle.loads(shared)
    multiprocessing.process.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # workers may have children
    pool = Pool(jobs, work, partial(_in_folder, folder), None)
    found: dict[int, Outcome] = {}
    try:
        pool.start()
        while len(found) < len(jobs):
            found.update(pool.collect())
    finally:
        pool.stop()
    return pickle.dumps([found[number] for number in range(len(jobs))])


def _in_folder(folder: str, job: Job, work: Work) -> Outcome:
    """Does a job in the working folder of the caller, to which its paths are relative."""
    try:
        os.chdir(folder)
    except OSError:
        return Outcome(job.path, error=f"{folder} is no folder of the worker's machine")
    return process(job, work)
