"""Version ranges of rule headers, `versions: ">=1.3,<1.9"`: read by the checks, compared with exporters by the engine.

A small part of PEP 440 (releases only), so that no package has to be installed for it. The exact version need not be known:
bounds are often enough, and if they are not, the answer is unknown.
"""

from __future__ import annotations

import re

from rewriter.core.errors import RewriterError
from rewriter.core.record import record

_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|<|>)\s*v?(\d{1,9}(?:\.\d{1,9}){0,5})(\.\*)?\s*")
_RELEASE = re.compile(r"\s*v?(\d{1,9}(?:\.\d{1,9}){0,5})")

Release = tuple[int, ...]


@record(frozen=True, slots=True)
class Bounds:
    """All versions from `least` on and below `below`; None is open. `exactly` returns the bounds of a known version."""

    least: Release | None = None
    below: Release | None = None


UNBOUNDED = Bounds()


@record(frozen=True, slots=True)
class Clause:
    """`>=1.3`; with `prefix`, `==1.5.*`."""

    operator: str
    release: Release
    prefix: bool = False

    def __str__(self) -> str:
        return f"{self.operator}{'.'.join(map(str, self.release))}{'.*' if self.prefix else ''}"

    def holds(self, bounds: Bounds) -> bool | None:
        """True or false when all versions in the bounds agree, None when they do not."""
        if self.operator in ("==", "!="):
            low = _at_least(bounds, _trim(self.release))
            high = _at_least(bounds, _after(self.release) if self.prefix else _next(self.release))
            equal = False if low is False or high is True else True if low and high is False else None
            return equal if equal is None or self.operator == "==" else not equal
        edge = self.release if self.operator in (">=", "<") else _next(self.release)
        reached = _at_least(bounds, edge)
        return reached if reached is None or self.operator in (">=", ">") else not reached


def parse_versions(text: str) -> tuple[Clause, ...]:
    """The clauses of a range, which must all hold; none for an empty text.

    Raises:
        RewriterError: a clause cannot be read.
    """
    return tuple(_clause(part) for part in text.split(",")) if text.strip() else ()


def release(text: str) -> Release | None:
    """(1, 17, 0) of "1.17.0 None", (2, 13, 0) of "2.13.0+cpu"; None if there is no number at the beginning."""
    found = _RELEASE.match(text)
    return _trim(tuple(int(part) for part in found[1].split("."))) if found else None


def exactly(version: Release) -> Bounds:
    """The bounds of a known version."""
    return Bounds(version, _next(version))


def _clause(part: str) -> Clause:
    found = _CLAUSE.fullmatch(part)
    if found is None or (found[3] and found[1] not in ("==", "!=")):
        raise RewriterError(f'{part.strip()!r} is no version clause; they read ">=1.3,<1.9" or "==1.5.*"')
    numbers = tuple(int(number) for number in found[2].split("."))
    return Clause(found[1], numbers if found[3] else _trim(numbers), bool(found[3]))


def _at_least(bounds: Bounds, edge: Release) -> bool | None:
    """Whether all versions in the bounds are at or beyond the edge, or none is."""
    if bounds.least is not None and bounds.least >= edge:
        return True
    return False if bounds.below is not None and bounds.below <= edge else None


def _trim(numbers: Release) -> Release:
    """Without trailing zeros, so that 1.3 and 1.3.0 are one version and tuples compare as versions do."""
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers


def _next(version: Release) -> Release:
    """The edge right behind this release: greater than it and below all later ones, which have at most six parts."""
    return version + (0,) * (8 - len(version))


def _after(prefix: Release) -> Release:
    """The first release that no longer starts so: (1, 6) for 1.5.*."""
    return _trim((*prefix[:-1], prefix[-1] + 1))
