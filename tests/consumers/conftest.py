"""The fixture of the command-line tests, for options about consumers."""

from tests.cli.conftest import call

__all__ = ["call"]
