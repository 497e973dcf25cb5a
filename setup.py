"""Which packages are installed: all under `rewriter/`, found, and the folders of grammar, rules and conversions."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["rewriter", "rewriter.*"]), "rewriter.grammar", "rewriter.rules", "rewriter.conversions"]
)
