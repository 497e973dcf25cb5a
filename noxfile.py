"""The tests with every Python that is there, and with the lowest versions that pyproject.toml allows: `pipx run nox`."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import nox
from nox.command import CommandFailed

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


CONSUMERS = {
    "opencv5": ["opencv-python-headless>=5"],
    "opencv4": ["opencv-python-headless<5"],
    "mnn": ["MNN"],
    "openvino": ["openvino"],
    "tract": ["tract"],
    "qnn": ["onnxruntime", "onnxruntime-qnn"],
}
"""What each environment of a consumer has; their versions exclude each other."""
OPTIONS = {"opencv4": ["--static"], "qnn": ["--static", "--first", "48"]}
"""Of consumers that compute few models of any size, and of the one that is slow."""


@nox.session
def consumers(session: nox.Session) -> None:
    """Consumers on recorded exports: `nox -s consumers -- ../shared/exports/exports.tar.xz --first 60`, all of them by default.

    Fails if a model becomes worse in a consumer, after all of them were asked.
    """
    session.install(".[verify]")
    folder = Path(session.create_tmp())
    archive, *options = session.posargs or ["../shared/exports/exports.tar.xz"]
    with tarfile.open(archive) as corpus:
        corpus.extractall(folder / "exports", filter="data")
    worse = []
    for name, packages in CONSUMERS.items():
        environment = folder / name
        session.run("python", "-m", "venv", str(environment))
        session.run(str(environment / "bin" / "pip"), "install", "--quiet", "numpy", *packages, external=True)
        models = [str(folder / "exports"), "--names", "benchmarks/consumer_models.txt", *OPTIONS.get(name, []), *options]
        consumer = ["--consumer", name.rstrip("45"), "--consumer-env", str(environment)]
        try:
            session.run("python", "benchmarks/consumers.py", *models, *consumer)
        except CommandFailed:
            worse.append(name)
    if worse:
        session.error(f"models are worse in {', '.join(worse)}")
