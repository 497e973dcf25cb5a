"""The keys of a rule's header, with the defaults filled in, and the ranges of versions in them.

Reading is tolerant: a malformed key counts as absent here, and `check_header` reports it. The ranges (`versions: ">=1.3,<1.9"`)
are read by the checks and compared with exporters by the engine. They are a small part of PEP 440 (releases only), so that no
package has to be installed for it. The exact version need not be known: bounds are often enough, and if they are not, the
answer is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rewriter.core.errors import RewriterError
from rewriter.core.language import ast
from rewriter.core.language.schema import OLDEST_OPSET
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


KINDS = ("exact", "approx", "repair", "lossy", "interface")
SAME_NUMBERS = ("exact", "approx", "repair")
"""Kinds that change no result that was right, so that choosing a target is asking for them."""
EVIDENCE = ("refused", "contradiction", "source", "exporter", "guess")
ONCE = ("model", "node")
RUNTIMES = ("onnxruntime",)
"""Runtimes that `refused(...)` may name: the guard can run them."""
SEVERITIES = ("error", "warning", "info")
PHASES = ("interface", "repair", "canonical", "optimize", "cleanup")
PHASE_OF_KIND: Mapping[str, str] = MappingProxyType(
    {"exact": "canonical", "approx": "optimize", "repair": "repair", "lossy": "canonical", "interface": "interface"}
)


@record(frozen=True)
class Header:
    """The header of one rule. `opset` and `ir` are ranges of versions; `opset` always has a beginning. `unverified` is the
    reason why running the rule cannot show that it is correct. `default` is whether the rule runs by default; a rule with
    `targets` or with `evidence: guess` never does. `on_target` is whether it runs if one of its targets is chosen. `evidence`
    is the evidence of a repair, None for the other kinds. `question` is the question to a person about a guess. `replaces` are
    the codes of the rules that this one replaced. `once` is "model" or "node": the rule fires once in a model, or at a node.
    """

    kind: ast.Kind
    evidence: ast.Evidence | None
    exporters: tuple[str, ...]
    versions: str | None
    opset: ast.OpsetRange
    ir: ast.OpsetRange
    severity: str
    phase: str
    before: tuple[str, ...]
    replaces: tuple[str, ...]
    needs_source: bool
    default: bool
    targets: tuple[str, ...]
    on_target: bool
    issues: tuple[str, ...]
    symptoms: tuple[str, ...]
    unverified: str | None
    question: str | None
    once: str | None = None


def read_header(meta: Iterable[ast.MetaItem]) -> Header:
    """The header's items with defaults: kind exact, opset 7.., severity and phase by kind, `default` by kind and severity."""
    items = {item.key: item.value for item in meta}
    kind = items.get("kind")
    if not isinstance(kind, ast.Kind) or kind.name not in KINDS:
        kind = ast.Kind("exact")
    kind = ast.Kind(kind.name, kind.rtol, kind.atol)
    evidence = items.get("evidence")
    evidence = ast.Evidence(evidence.name, evidence.runtime) if isinstance(evidence, ast.Evidence) else None
    guess = evidence is not None and evidence.name == "guess"
    severity = _choice(items.get("severity"), SEVERITIES) or ("error" if kind.name == "repair" else "info")
    targets = _words(items.get("target"))
    unasked = kind.name == "repair" or (kind.name == "exact" and severity != "info")
    written = _choice(items.get("default"), ("on", "off"))
    versions, unverified, question = items.get("versions"), items.get("unverified"), items.get("question")
    return Header(
        kind=kind,
        evidence=evidence,
        exporters=_words(items.get("exporter")),
        versions=versions if isinstance(versions, str) else None,
        opset=_opset(items.get("opset")),
        ir=_range(items.get("ir")),
        severity=severity,
        phase=_choice(items.get("phase"), PHASES) or PHASE_OF_KIND[kind.name],
        before=_words(items.get("before")),
        replaces=_words(items.get("replaces")),
        needs_source="source" in _words(items.get("needs")),
        default=not targets and not guess and (unasked if written is None else written == "on"),
        targets=targets,
        on_target=bool(targets) and kind.name in SAME_NUMBERS and written != "off",
        issues=_words(items.get("issue")),
        symptoms=_words(items.get("symptom")),
        unverified=unverified if isinstance(unverified, str) else None,
        question=question if isinstance(question, str) else None,
        once=_choice(items.get("once"), ONCE),
    )


def _range(value: object) -> ast.OpsetRange:
    return ast.OpsetRange(value.first, value.last) if isinstance(value, ast.OpsetRange) else ast.OpsetRange()


def _opset(value: object) -> ast.OpsetRange:
    written = _range(value)
    first = written.first
    if first is None:
        first = OLDEST_OPSET if written.last is None or written.last >= OLDEST_OPSET else 1
    return ast.OpsetRange(first, written.last)


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return value if isinstance(value, tuple) else ()


def _choice(value: object, choices: tuple[str, ...]) -> str | None:
    return value if isinstance(value, str) and value in choices else None
