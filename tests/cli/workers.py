"""Stand-ins for the work of a process, importable by a process that was spawned."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from rewriter.app.batch.work import Job, Outcome, Work


def obedient(job: Job, work: Work) -> Outcome:
    """Does the first job of those with a target when the fourth has made that file, and thus after the second."""
    mark = None if job.target is None else Path(job.target)
    if mark is not None and job.path.endswith("3"):
        mark.touch()
    while mark is not None and job.path.endswith("0") and not mark.exists():
        time.sleep(0.01)
    return Outcome(job.path, output=job.target)


def mortal(job: Job, work: Work) -> Outcome:
    """Is killed by the jobs that say so; a copy succeeds."""
    if "kill" in job.path and not job.copy:
        os.kill(os.getpid(), signal.SIGKILL)
    if "exit" in job.path:
        os._exit(7)
    return Outcome(job.path, output=job.target if job.copy else None)


STARTED_DEAF = hasattr(signal, "pthread_sigmask") and signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""Whether Ctrl-C was kept from this process already when it imported this."""


def deaf(job: Job, work: Work) -> Outcome:
    """Tells it."""
    return Outcome(job.path, source="deaf" if STARTED_DEAF else "hears")
