"""Stand-ins for the work of a process, importable by a process that was spawned."""

from __future__ import annotations

import os
import signal
import time

from rewriter.cli.job import Job, Outcome, Work


def obedient(job: Job, work: Work) -> Outcome:
    """Does the first jobs last."""
    time.sleep(0.2 if job.path.endswith("0") else 0.0)
    return Outcome(job.path, output=job.target)


def mortal(job: Job, work: Work) -> Outcome:
    """Is killed by the jobs that say so; a copy succeeds."""
    if "kill" in job.path and not job.copy:
        os.kill(os.getpid(), signal.SIGKILL)
    if "exit" in job.path:
        os._exit(7)
    return Outcome(job.path, output=job.target if job.copy else None)
