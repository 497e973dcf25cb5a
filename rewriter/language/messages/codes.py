"""Every code that a message can carry, with its page: `rewriter explain E103`.

A page says what the code means and shows a wrong rule beside the right one. The examples are compiled by the tests: a wrong one
gives its code, a right one gives nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rewriter.errors import RewriterError
from rewriter.language.diagnostics import suggest
from rewriter.language.messages.header_pages import PAGES as HEADER
from rewriter.language.messages.name_pages import PAGES as NAMES
from rewriter.language.messages.operator_pages import PAGES as OPERATORS
from rewriter.language.messages.page import Page
from rewriter.language.messages.rewrite_pages import PAGES as REWRITES
from rewriter.language.messages.set_pages import PAGES as SET
from rewriter.language.messages.syntax_pages import PAGES as SYNTAX
from rewriter.language.messages.trust_pages import PAGES as TRUST
from rewriter.language.messages.type_pages import PAGES as TYPES

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
