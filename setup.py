"""Which packages are installed: all under `rewriter/`, found, and the folders of grammar, rules, conversions and targets."""

from setuptools import find_packages, setup

APART = ("grammar", "rules", "conversions", "targets")

setup(packages=[*find_packages(include=["rewriter", "rewriter.*"]), *(f"rewriter.{name}" for name in APART)])
