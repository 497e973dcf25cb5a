"""Text of rules as Markdown, for the modules that write pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rewriter.core.language.rules import Rule

RULES = Path(__file__).parent.parent / "rules"


def plain(text: str) -> str:
    """Text that Markdown shows as it is; text between backticks is shown as it is already."""
    return "`".join(re.sub(r"([<*\[\]])", r"\\\1", part) if i % 2 == 0 else part for i, part in enumerate(text.split("`")))


def cell(text: str) -> str:
    return plain(text).replace("|", "\\|")


def block(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def source_path(rule: Rule) -> str:
    """The file of a rule below rules/."""
    return Path(rule.path).relative_to(RULES).as_posix()


def link(rule: Rule, up: str) -> str:
    """A link to the file of a rule; `up` leads from the page to the repository."""
    return f"[{rule.code}]({up}rules/{source_path(rule)})"


def links(rules: Sequence[Rule], up: str) -> str:
    return ", ".join(link(rule, up) for rule in rules)
