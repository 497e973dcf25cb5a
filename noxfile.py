"""The tests with every Python that is there, and with the lowest versions that pyproject.toml allows: `pipx run nox`."""

from __future__ import annotations

import re
from pathlib import Path

import nox

nox.options.sessions = ["tests", "lowest"]
nox.options.error_on_missing_interpreters = False

NEEDED = Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8").split("[project.optional-dependencies]")[0]
LOWEST = [f"{name}=={version}" for name, version in re.findall(r'^    "([\w-]+)>=([\w.]+)"', NEEDED, re.MULTILINE)]


@nox.session(python=["3.10", "3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    session.install(".[test]")
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)


@nox.session(python="3.10")
def lowest(session: nox.Session) -> None:
    """The lower bounds of pyproject.toml; what tests need besides is new."""
    session.install(".[test]", *LOWEST)
    session.run("python", "-m", "pytest", "-n", "auto", *session.posargs)
