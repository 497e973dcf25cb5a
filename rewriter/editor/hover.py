"""What is shown of a word under the mouse: operators by opset, functions, rules, defines, names."""

from __future__ import annotations

from collections.abc import Iterable

from rewriter.editor.opened_rules import OpenedRules, Word
from rewriter.language.functions import FUNCTIONS
from rewriter.language.load_rules import load_rules
from rewriter.language.messages.message_pages import message_pages
from rewriter.language.rule import Rule
from rewriter.language.schema import Operator, history, registered

_SENTENCE = 300  # characters of a description


def hover(opened: OpenedRules, offset: int) -> tuple[str, Word] | None:
    """What there is to say of the word at a place, as Markdown, and the word."""
    word = opened.word(offset)
    if word is None:
        return None
    text = _operator(word.text) or _function(word.text) or _define(opened, word.text) or _rule(opened, word.text)
    text = text or _name(opened, offset, word.text)
    return (text, word) if text else None


def _operator(name: str) -> str:
    domain, _, op = name.rpartition(".")
    versions = history(op, domain) if op[:1].isupper() else ()
    if not versions:
        return ""
    lines = [_signature(version) for version in reversed(versions)]
    described = " ".join((registered(op, domain)[-1].doc or "").split())
    short = described if len(described) <= _SENTENCE else f"{described[:_SENTENCE].rsplit(' ', 1)[0]} ..."
    return "```\n" + "\n".join(lines) + f"\n```\n{short}"


def _signature(operator: Operator) -> str:
    attributes = [
        name + ("" if one.required else f"={one.default!r}" if one.default is not None else "?")
        for name, one in sorted(operator.attributes.items())
    ]
    shown = f"<{', '.join(attributes)}>" if attributes else ""
    name, _, operands = operator.signature.partition("(")
    outputs = ", ".join(
        formal.name + ("..." if formal.variadic else "?" if formal.optional else "") for formal in operator.outputs
    )
    gone = ", deprecated" if operator.deprecated else ""
    return f"opset {operator.since}..: {outputs} = {name}{shown}({operands}{gone}"


def _function(name: str) -> str:
    found = FUNCTIONS.get(name)
    return "" if found is None else f"```\n{found.signature}\n```\n{found.doc}"


def _define(opened: OpenedRules, name: str) -> str:
    found = next((one for one in (*opened.file.defines, *opened.shared.values()) if one.name == name), None)
    if found is None:
        return ""
    return f"```\n{found.text.strip()}\n```\n" + "\n".join(line.strip() for line in found.doc)


def _rule(opened: OpenedRules, code: str) -> str:
    page = message_pages().get(code)
    if page is not None:
        return f"**{code}**: {page.title}"
    if not (code[:1].isupper() and code[-1:].isdigit()):
        return ""
    rule = find_rule(code, opened.rules)
    return "" if rule is None else f"**{rule.code}** {rule.slug}\n\n" + "\n".join(line.strip() for line in rule.ast.doc)


def find_rule(code: str, own: Iterable[Rule]) -> Rule | None:
    """The rule of a code, in the open file or among those that are shipped."""
    return next((rule for rule in own if rule.code == code), None) or load_rules().get(code)


def _name(opened: OpenedRules, offset: int, name: str) -> str:
    name = name.partition(".")[0]
    found = next((one for one in opened.names(offset) if one.text == name), None)
    if found is None:
        return ""
    number = opened.source.line_col(found.start)[0]
    return f"`{name}`, bound in line {number}\n```\n{opened.source.line(number).strip()}\n```"
