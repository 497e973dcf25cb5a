"""Version ranges over known, bounded and unknown versions."""

from __future__ import annotations

import pytest

from rewriter.core.errors import RewriterError
from rewriter.core.language.header import Bounds, exactly, parse_versions, release


def holds(spec: str, bounds: Bounds) -> list[bool | None]:
    return [clause.holds(bounds) for clause in parse_versions(spec)]


@pytest.mark.parametrize(
    ("version", "spec", "expected"),
    [
        ("1.3", ">=1.3,<1.9", [True, True]),
        ("1.3.0", "==1.3", [True]),
        ("1.3", ">1.3.0", [False]),
        ("1.3.0.1", ">1.3", [True]),
        ("1.10", "<1.9", [False]),
        ("1.5.1", "==1.5.*,!=1.5.*", [True, False]),
        ("1", "==1.0.*", [True]),
        ("1.6", "==1.5.*", [False]),
        ("2.13.0+cpu", ">=2.13,<=2.13", [True, True]),
        ("1.17.0 None", "!=1.17", [False]),
        ("v0.4", "<1", [True]),
    ],
)
def test_known_versions(version: str, spec: str, expected: list[bool]) -> None:
    known = release(version)
    assert known is not None
    assert holds(spec, exactly(known)) == expected


@pytest.mark.parametrize(
    ("bounds", "spec", "expected"),
    [
        (Bounds(), ">=1.3,<1.9,==1.5,!=1.5", [None] * 4),
        (
            Bounds(least=(1, 9)),
            ">=1.3,>=1.9,>1.9,<1.9,<1.9.1,==1.8,!=1.8,==1.9",
            [True, True, None, False, None, False, True, None],
        ),
        (
            Bounds(below=(1, 9)),
            "<1.9,<=1.9,<1.8,>=1.9,>1.8,==1.9,==1.9.*,==1.8.*",
            [True, True, None, False, None, False, False, None],
        ),
        (Bounds((1, 5), (1, 6)), "==1.5.*,!=1.5.*,==1.5", [True, False, None]),
    ],
)
def test_versions_known_by_bounds_only(bounds: Bounds, spec: str, expected: list[bool | None]) -> None:
    assert holds(spec, bounds) == expected


@pytest.mark.parametrize("spec", ["1.3", "=>1.3", ">=1.3;<2", ">=1.3.*", ">=", "~=1.3", ">=1.3,", "<" + "9" * 40])
def test_what_is_no_range(spec: str) -> None:
    with pytest.raises(RewriterError, match="no version clause"):
        parse_versions(spec)


def test_no_range_and_no_version() -> None:
    assert parse_versions("  ") == ()
    assert release("nightly") is None
