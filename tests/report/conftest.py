"""Fixtures of the tests of plans."""

from __future__ import annotations

import pytest

from tests.cli.call import Call


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    for name in ("NO_COLOR", "FORCE_COLOR", "REWRITER_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return Call(capsys)
