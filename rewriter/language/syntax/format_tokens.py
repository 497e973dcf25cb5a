"""Blanks between the tokens of a line, as the formatter writes them.

The same sign is written differently by its place: `=` is tight between attribute and value and spaced in a statement, `<` opens
attributes after an operator and compares in an expression, `*` spreads a run of tensors or multiplies. So the brackets around a
token are followed while its line is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from lark import Token

Place = Literal["header", "node", "edit", "attributes", "expression"]

_OPENING = {"LPAR", "LSQB", "_TOUCHING", "LBRACE"}
_CLOSING = {"RPAR", "RSQB", "RBRACE"}
_TIGHT_AFTER = {*_OPENING, "BANG", "DOT", "RANGE"}
_TIGHT_BEFORE = {*_CLOSING, "COMMA", "COLON", "DOT", "_TOUCHING"}
_ENDS_OPERAND = {"NAME", "INT", "FLOAT", "STRING", "RPAR", "RSQB", "DTYPE", "COLUMN", "TRUE", "FALSE", "NONE"}


def spaced(tokens: Sequence[Token], place: Place) -> list[str]:
    """The text of each token of a line with the blank before it, if any; the first has none.

    Args:
        tokens: one part, pattern line or statement, without the braces of a block.
        place: what its outermost tokens are; an "edit" becomes an "expression" at its `=`.
    """
    spacer = _Spacer(place)
    return [spacer.before(tokens, at) + _written(token) for at, token in enumerate(tokens)]


def joined(tokens: Sequence[Token], place: Place) -> str:
    """The tokens as one line."""
    return "".join(spaced(tokens, place))


def pieces(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """The runs of tokens that end with a comma (or the line): where a header may be broken, as positions from and to."""
    ends = [at + 1 for at, token in enumerate(tokens[:-1]) if token.type == "COMMA"]
    return list(zip([0, *ends], [*ends, len(tokens)], strict=True))


def _written(token: Token) -> str:
    """A token as it is written; only `* parts` before a `=` can hold blanks of its own."""
    return "*" + token[1:].strip() if token.type == "SPREAD" else str(token)


class _Spacer:
    def __init__(self, place: Place) -> None:
        self.places: list[Place] = [place]
        self.tight = True  # nothing may stand between the last token and the next

    def before(self, tokens: Sequence[Token], at: int) -> str:
        token = tokens[at]
        if tokens[0].type == "EACH" and self._braces(token):
            return " "
        previous = tokens[at - 1].type if at else ""
        place = self.places[-1]
        opens_attributes = token.type == "LESSTHAN" and place in ("node", "header")
        closes_attributes = token.type == "MORETHAN" and place in ("attributes", "header")
        tight = (
            (self.tight and not (previous == "RANGE" and token.type == "LBRACE"))
            or token.type in _TIGHT_BEFORE
            or (opens_attributes and place == "node")
            or closes_attributes
            or "TILDE" in (token.type, previous)
            or (token.type == "TIMES" and place == "node" and previous in ("NAME", "RPAR", "COLUMN"))
            or (token.type == "EQUAL" and (place == "attributes" or self.places[0] == "header"))
            or (
                token.type == "LPAR"
                and (
                    previous in ("NAME", "COLUMN", "DTYPE", "ANY", "RPAR")
                    or (previous == "TIMES" and self.tight)
                    or (previous == "MORETHAN" and place == "node")
                )
            )
            or (token.type == "LBRACE" and previous in ("DTYPE", "COLUMN", "RSQB"))
            or (token.type == "RANGE" and previous in _ENDS_OPERAND)
            or (token.type == "OPTIONAL" and previous == "NAME")
        )
        self.tight = self._tight_after(token, previous, place, opens_attributes)
        self._enter(token, place, opens_attributes, closes_attributes)
        return "" if tight else " "

    def _braces(self, token: Token) -> bool:
        """`each ... if condition { statement }`: what its words and braces change; whether the token is one of the braces."""
        if token.type == "IF" and len(self.places) == 1:
            self.places[0] = "expression"
        opens, closes = token.type == "LBRACE" and len(self.places) == 1, token.type == "RBRACE" and len(self.places) == 2
        if opens:
            self.places.append("node")
        elif closes:
            self.places.pop()
        self.tight = self.tight and not opens
        return opens or closes

    def _tight_after(self, token: Token, previous: str, place: Place, opens_attributes: bool) -> bool:
        if token.type == "EQUAL":
            return place == "attributes" or self.places[0] == "header"
        if token.type == "MINUS":
            return previous not in _ENDS_OPERAND
        if token.type == "TIMES":
            return place == "node"
        return opens_attributes or token.type in _TIGHT_AFTER

    def _enter(self, token: Token, place: Place, opens_attributes: bool, closes_attributes: bool) -> None:
        """Follows the brackets."""
        if token.type == "EQUAL" and place == "edit":
            self.places[-1] = "expression"
        elif opens_attributes and place == "node":
            self.places.append("attributes")
        elif closes_attributes and place == "attributes":
            self.places.pop()
        elif token.type in _OPENING:
            self.places.append("node" if token.type == "LPAR" and place == "node" else "expression")
        elif token.type in _CLOSING and len(self.places) > 1:
            self.places.pop()
