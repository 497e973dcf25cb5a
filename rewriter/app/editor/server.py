"""The language server: requests of the Language Server Protocol, answered by the modules of this folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from rewriter import __version__
from rewriter.app.editor.opened_rules import OpenedRules, find_rule, hover, proposals
from rewriter.app.report.why_lines import miss_lines
from rewriter.app.style import Style
from rewriter.core.errors import RewriterError, counted
from rewriter.core.isolation import budget
from rewriter.core.isolation.budget import Budget, budgeted
from rewriter.core.language.ast import Span
from rewriter.core.language.diagnostics import Diagnostic, Related, RuleFileError
from rewriter.core.language.rule_files import NAME, read_rule_file
from rewriter.rule_tools.format import format_text
from rewriter.trust.rule_tests import TestResult, inline_tests, limited_results

TEST, VERIFY = "rewriter.test", "rewriter.verify"
"""Commands. The arguments of both are the URI of a file and the code of a rule; `TEST` also has the line of a test."""

_KINDS = {
    "operator": lsp.CompletionItemKind.Class,
    "attribute": lsp.CompletionItemKind.Property,
    "function": lsp.CompletionItemKind.Function,
    "name": lsp.CompletionItemKind.Variable,
    "key": lsp.CompletionItemKind.Field,
    "value": lsp.CompletionItemKind.EnumMember,
    "type": lsp.CompletionItemKind.TypeParameter,
    "keyword": lsp.CompletionItemKind.Keyword,
}


class RulesServer:
    """Rule files that are open in an editor; `server` speaks the protocol."""

    def __init__(self) -> None:
        self.server = LanguageServer("rewriter", __version__)
        self._opened: dict[str, OpenedRules] = {}
        self._failed: dict[str, list[lsp.Diagnostic]] = {}
        for name, answer in (
            (lsp.TEXT_DOCUMENT_DID_OPEN, self.changed),
            (lsp.TEXT_DOCUMENT_DID_CHANGE, self.changed),
            (lsp.TEXT_DOCUMENT_DID_SAVE, self.changed),
            (lsp.TEXT_DOCUMENT_DID_CLOSE, self.closed),
            (lsp.TEXT_DOCUMENT_HOVER, self.hovered),
            (lsp.TEXT_DOCUMENT_COMPLETION, self.completed),
            (lsp.TEXT_DOCUMENT_DEFINITION, self.defined),
            (lsp.TEXT_DOCUMENT_FORMATTING, self.formatted),
            (lsp.TEXT_DOCUMENT_CODE_LENS, self.lenses),
        ):
            options = lsp.CompletionOptions(trigger_characters=[".", "<", "@"]) if answer == self.completed else None
            self.server.feature(name, options)(_function(answer))
        self.server.command(TEST)(_function(self.tested))
        self.server.command(VERIFY)(self.server.thread()(_function(self.verified)))

    def opened(self, uri: str) -> OpenedRules:
        """The current text of a file, parsed."""
        document = self.server.workspace.get_text_document(uri)
        text, found = document.source, self._opened.get(uri)
        if found is None or found.text != text:
            found = self._opened[uri] = OpenedRules(text, document.path or "")
        return found

    # --- requests of editors

    def changed(self, params: Any) -> None:
        """Publishes the messages of the compiler, and removes failures of tests of an earlier text."""
        self._failed.pop(params.text_document.uri, None)
        self._publish(params.text_document.uri)

    def closed(self, params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        self._opened.pop(uri, None)
        self._failed.pop(uri, None)
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def hovered(self, params: lsp.HoverParams) -> lsp.Hover | None:
        uri = params.text_document.uri
        found = hover(self.opened(uri), self._offset(uri, params.position))
        if found is None:
            return None
        text, word = found
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), self._range(uri, Span(word.start, word.end)))

    def completed(self, params: lsp.CompletionParams) -> lsp.CompletionList:
        uri = params.text_document.uri
        found = proposals(self.opened(uri), self._offset(uri, params.position))
        items = [lsp.CompletionItem(one.word, kind=_KINDS[one.kind], detail=one.detail or None) for one in found]
        return lsp.CompletionList(is_incomplete=False, items=items)

    def defined(self, params: lsp.DefinitionParams) -> lsp.Location | None:
        uri = params.text_document.uri
        opened = self.opened(uri)
        found = definition(opened, self._offset(uri, params.position))
        if found is None:
            return None
        if found.path == opened.path:
            return lsp.Location(uri, self._range(uri, found.span))
        try:
            source = OpenedRules(read_rule_file(found.path), found.path).source
        except RewriterError:
            return None
        line, column = source.line_col(found.span.start)
        start = lsp.Position(line - 1, column - 1)
        end = lsp.Position(line - 1, column - 1 + found.span.end - found.span.start)
        return lsp.Location(Path(found.path).resolve().as_uri(), lsp.Range(start, end))

    def formatted(self, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        """The whole text in its canonical layout; None if it does not parse."""
        opened = self.opened(params.text_document.uri)
        try:
            text = format_text(opened.text)
        except (RuleFileError, RewriterError):
            return None
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(opened.text.count("\n") + 1, 0))
        return [] if text == opened.text else [lsp.TextEdit(whole, text)]

    def lenses(self, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        uri = params.text_document.uri
        return list(self._lenses(uri, self.opened(uri)))

    def tested(self, uri: str, code: str = "", line: int = 0) -> list[dict[str, Any]]:
        """Runs tests, marks those that fail in the text, and shows how many passed."""
        opened = self.opened(uri)
        results = test_results(opened, code, line)
        self._failed[uri] = [
            lsp.Diagnostic(
                self._line(result.line),
                f"{result.title}\n{result_text(result)}",
                lsp.DiagnosticSeverity.Error,
                source="rewriter test",
            )
            for result in results
            if not result.ok
        ]
        self._publish(uri)
        failed = len(self._failed[uri])
        self._show(f"{code or 'all rules'}: {len(results) - failed} of {len(results)} tests passed", failed > 0)
        return [{"rule": r.rule, "title": r.title, "line": r.line, "ok": r.ok, "message": result_text(r)} for r in results]

    def verified(self, uri: str, code: str) -> list[str]:
        """Runs a rule on random models, and shows the verdicts."""
        try:
            found = list(verified(self.opened(uri), code))
        except RewriterError as error:
            found = [str(error)]
        for text in found:
            self._show(text, f"{code} tested" not in text)
        return found

    # --- inside

    def _publish(self, uri: str) -> None:
        opened = self.opened(uri)
        found = [self._diagnostic(uri, one) for one in opened.problems if one.path in ("", opened.path)]
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, [*found, *self._failed.get(uri, ())]))

    def _diagnostic(self, uri: str, diagnostic: Diagnostic) -> lsp.Diagnostic:
        text = "\n".join(
            (
                diagnostic.message,
                *(f"note: {note}" for note in diagnostic.notes),
                *(f"help: {text}" for text in diagnostic.helps),
            )
        )
        severity = lsp.DiagnosticSeverity.Warning if diagnostic.is_warning else lsp.DiagnosticSeverity.Error
        return lsp.Diagnostic(self._range(uri, diagnostic.span), text, severity, code=diagnostic.code, source="rewriter")

    def _lenses(self, uri: str, opened: OpenedRules) -> Iterator[lsp.CodeLens]:
        for rule in opened.file.rules:
            line = opened.source.line_col(rule.code_span.start)[0]
            if rule.tests:
                yield self._lens(line, f"run tests of {rule.code}", TEST, [uri, rule.code])
            yield self._lens(line, f"verify {rule.code}", VERIFY, [uri, rule.code])
            for test in rule.tests:
                line = opened.source.line_col(test.span.start)[0]
                yield self._lens(line, f"run test of {rule.code}", TEST, [uri, rule.code, line])

    def _lens(self, line: int, title: str, command: str, arguments: Sequence[Any]) -> lsp.CodeLens:
        return lsp.CodeLens(self._line(line), lsp.Command(title=title, command=command, arguments=list(arguments)))

    def _line(self, line: int) -> lsp.Range:
        return lsp.Range(lsp.Position(line - 1, 0), lsp.Position(line, 0))

    def _offset(self, uri: str, position: lsp.Position) -> int:
        return int(self.server.workspace.get_text_document(uri).offset_at_position(position))

    def _range(self, uri: str, span: Span) -> lsp.Range:
        document = self.server.workspace.get_text_document(uri)
        return lsp.Range(document.client_position_at_offset(span.start), document.client_position_at_offset(span.end))

    def _show(self, text: str, wrong: bool) -> None:
        kind = lsp.MessageType.Warning if wrong else lsp.MessageType.Info
        self.server.window_show_message(lsp.ShowMessageParams(kind, text))


def _function(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method as a function: pygls sets attributes on its handlers, and a method has none."""

    def function(*arguments: Any) -> Any:
        return method(*arguments)

    function.__annotations__ = {}  # `Any` is no class before Python 3.11, and pygls requires annotations to be classes
    return function


# Tests and verification of the rules of an open file, with its unsaved changes.


SAMPLES, SECONDS = 60, 5.0
"""Samples and seconds for a rule, few because the user waits."""


def test_results(opened: OpenedRules, code: str = "", line: int = 0) -> list[TestResult]:
    """Runs the tests of a file, of one of its rules, or the one that begins in a line (from 1 on)."""
    chosen = [
        (rule, test)
        for rule, test in inline_tests(opened.rules)
        if code in ("", rule.code) and line in (0, rule.source.line_col(test.span.start)[0])
    ]
    with budgeted(Budget(most=budget.share_of_machine(1))):
        return list(limited_results(chosen, tuple(opened.rules)))


def result_text(result: TestResult) -> str:
    """Why a test failed, as lines."""
    misses = () if result.why is None else miss_lines(result.why, 1, Style(False))
    return "\n".join((result.message, *misses))


def verified(opened: OpenedRules, code: str) -> Iterable[str]:
    """The verdicts on the rules of this code, run on random models. Raises RewriterError without a runtime."""
    from rewriter.trust.proof.oracles import require_runtime
    from rewriter.trust.proof.rules.verify_rule import VerifyPlan, verify_all

    require_runtime()
    chosen = [rule for rule in opened.rules if rule.code == code]
    for verdict in verify_all(chosen, VerifyPlan(SAMPLES, 0, SECONDS), {}, 1):
        why = f": {verdict.why}" if verdict.why else ""
        yield f"{verdict.rule} {verdict.status} ({counted(verdict.samples, 'random model')}){why}\n{verdict.obligation}".strip()


# Definitions of words: a capture in its pattern, a define in its file or folder, a rule in its file or a shipped one.


def definition(opened: OpenedRules, offset: int) -> Related | None:
    """The place, in this or another file."""
    word = opened.word(offset)
    if word is None:
        return None
    name = word.text.partition(".")[0]
    found = next((one for one in opened.names(offset) if one.text == name), None)
    if found is not None:
        return Related(opened.path, Span(found.start, found.end))
    for define in opened.file.defines:
        if define.name == name:
            return Related(opened.path, define.name_span)
    if name in opened.shared:
        return _beside(opened, name)
    rule = find_rule(name, opened.rules) if name[:1].isupper() and name[-1:].isdigit() else None
    return None if rule is None else Related(rule.path, rule.ast.code_span)


def _beside(opened: OpenedRules, name: str) -> Related | None:
    folder = os.path.dirname(opened.path)
    for path in (os.path.join(folder, NAME), os.path.join(os.path.dirname(folder), NAME)):
        if os.path.isfile(path):
            for define in OpenedRules(read_rule_file(path), path).file.defines:
                if define.name == name:
                    return Related(path, define.name_span)
    return None
