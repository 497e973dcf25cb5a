"""Fixtures of the tests of what helps those who write rules."""

from __future__ import annotations

import pytest

from tests.cli.call import Call


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)
