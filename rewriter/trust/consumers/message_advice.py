"""Advice on error messages of consumers that no rule alone repairs: `targets/messages.toml`."""

from __future__ import annotations

import re

from rewriter.core.record import record
from rewriter.core.resources import resource

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


@record(frozen=True, slots=True)
class Advice:
    """Which consumer prints a message, what to do, and the thread that it comes from."""

    consumer: str
    text: str
    advice: str
    thread: str


def advice_on(message: str) -> list[Advice]:
    """The advice whose words all occur in a message."""
    from rewriter.trust.plans.toml_text import parse

    file = resource("targets/messages.toml")
    known = [Advice(**entry) for entry in parse(file.read_text(encoding="utf-8"), str(file))["message"]]
    words = set(_WORD.findall(message.lower()))
    return [one for one in known if words.issuperset(_WORD.findall(one.text.lower()))]
