"""Every code that a message can carry, with its page: `rewriter explain E103`.

A page says what the code means and shows a wrong rule beside the right one. The examples are compiled by the tests: a wrong one
gives its code, a right one gives nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rewriter.errors import RewriterError
from rewriter.language.diagnostics import suggest
from rewriter.language.pages.header import PAGES as HEADER
from rewriter.language.pages.names import PAGES as NAMES
from rewriter.language.pages.operators import PAGES as OPERATORS
from rewriter.language.pages.page import Page
from rewriter.language.pages.rewrites import PAGES as REWRITES
from rewriter.language.pages.set import PAGES as SET
from rewriter.language.pages.syntax import PAGES as SYNTAX
from rewriter.language.pages.trust import PAGES as TRUST
from rewriter.language.pages.types import PAGES as TYPES

PAGES: Mapping[str, Page] = MappingProxyType(
    {page.code: page for pages in (SYNTAX, OPERATORS, NAMES, TYPES, REWRITES, HEADER, SET, TRUST) for page in pages}
)
"""Code → page, in the order of the groups: the text, operators, names, types, rewrites, header, rule sets and trust."""


def explain(code: str) -> str:
    """The page of a code as text.

    Raises:
        RewriterError: there is no such code.
    """
    page = PAGES.get(code.upper())
    if page is None:
        near = suggest(code.upper(), PAGES)
        raise RewriterError(f"there is no code {code!r}" + (f"; did you mean {near}?" if near else ""))
    return page.render()
