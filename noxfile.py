"""The tests with every Python that is there, and with the lowest versions that pyproject.toml allows: `pipx run nox`."""

from __future__ import annotations

import re
import tarfile
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


CONSUMERS = {
    "opencv5": ["opencv-python-headless>=5"],
    "opencv4": ["opencv-python-headless<5"],
    "mnn": ["MNN"],
    "openvino": ["openvino"],
    "tract": ["tract"],
    "qnn": ["onnxruntime", "onnxruntime-qnn"],
}
"""What each environment of a consumer has; their versions exclude each other."""


@nox.session
def consumers(session: nox.Session) -> None:
    """Consumers on recorded exports: `nox -s consumers -- ../shared/exports/exports.tar.xz`. Fails if a model becomes worse."""
    session.install(".[verify]")
    folder = Path(session.create_tmp())
    with tarfile.open(session.posargs[0] if session.posargs else "../shared/exports/exports.tar.xz") as corpus:
        corpus.extractall(folder / "exports", filter="data")
    for name, packages in CONSUMERS.items():
        environment = folder / name
        session.run("python", "-m", "venv", str(environment))
        session.run(str(environment / "bin" / "pip"), "install", "--quiet", "numpy", *packages, external=True)
        asked = ["--static", "--first", "60"] if name == "qnn" else []
        models = [str(folder / "exports"), "--names", "benchmarks/consumer_models.txt"]
        session.run("python", "benchmarks/consumers.py", *models, "--consumer-env", str(environment), *asked)
