"""Which packages are installed: all under `rewriter/`, found, and the folders of grammar and rules among them."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["rewriter", "rewriter.*"]), "rewriter.grammar", "rewriter.rules"])
