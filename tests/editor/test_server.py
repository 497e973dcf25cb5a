"""A scripted session with the language server: a client of the protocol opens, types, asks and runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

PATIENCE = 600.0
"""Seconds of the clock: long enough for a busy machine, since nothing but a hang is to be found out."""

TEXT = """\
define small(x) = size(x) == 1

/// Two negations cancel. 😀
rule MY001 negated-twice <kind: exact, severity: warning, opset: 11.., before: MY002>

match { [n] t = Neg(x)  y = Neg(t) }
where rank(x) == 2 and small(x) and n_outputs(n) == 1

rewrite {
  y = Gemm<alpha=1.0>(x, x)
}

test "it" ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[1,1] a) => (float[1,1] b) { t = Neg(a)  b = Neg(t) }
~~~ becomes ~~~
  <ir_version: 8, opset_import: ["": 13]>
  g (float[1,1] a) => (float[1,1] b) { b = Gemm<alpha=1.0>(a, a) }
~~~

/// Another.
rule MY002 other <kind: exact>
match { y = Abs(Abs(x)) }
rewrite { y = Abs(x) }
"""


class Session:
    """One client and what the server told it."""

    def __init__(self, path: Path) -> None:
        self.path, self.uri = path, path.as_uri()
        self.client = LanguageClient("test", "1")
        self.told: list[lsp.PublishDiagnosticsParams] = []
        self.shown: list[str] = []
        self.news = asyncio.Event()
        self.text = ""
        self.version = 0

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: lsp.PublishDiagnosticsParams) -> None:
            self.told.append(params)
            self.news.set()

        @self.client.feature(lsp.WINDOW_SHOW_MESSAGE)
        def show(params: lsp.ShowMessageParams) -> None:
            self.shown.append(params.message)

    async def start(self) -> lsp.ServerCapabilities:
        await self.client.start_io(sys.executable, "-m", "rewriter", "lsp", "--stdio")
        answer = await self.client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
        self.client.initialized(lsp.InitializedParams())
        return answer.capabilities

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    async def opens(self, text: str) -> list[lsp.Diagnostic]:
        self.text = text
        self.news.clear()
        document = lsp.TextDocumentItem(self.uri, "rules", 0, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
        return await self._diagnostics()

    async def types(self, text: str) -> list[lsp.Diagnostic]:
        self.text, self.version = text, self.version + 1
        self.news.clear()
        document = lsp.VersionedTextDocumentIdentifier(self.version, self.uri)
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))
        return await self._diagnostics()

    async def _diagnostics(self) -> list[lsp.Diagnostic]:
        await asyncio.wait_for(self.news.wait(), PATIENCE)
        return list(self.told[-1].diagnostics)

    def at(self, words: str, into: int = 0) -> dict[str, Any]:
        """The document and the place of some words in it."""
        before = self.text[: self.text.index(words) + into]
        line = before.count("\n")
        column = len(before.rpartition("\n")[2].encode("utf-16-le")) // 2
        return {"text_document": lsp.TextDocumentIdentifier(self.uri), "position": lsp.Position(line, column)}

    async def hover(self, words: str, into: int = 0) -> str:
        found = await self.client.text_document_hover_async(lsp.HoverParams(**self.at(words, into)))
        return "" if found is None else found.contents.value  # type: ignore[union-attr]

    async def complete(self, words: str) -> dict[str, lsp.CompletionItem]:
        """What may be written behind some words."""
        found = await self.client.text_document_completion_async(lsp.CompletionParams(**self.at(words, len(words))))
        return {item.label: item for item in found.items}  # type: ignore[union-attr]

    async def definition(self, words: str, into: int = 0) -> tuple[str, str]:
        """The file, and the text that is defined there."""
        found = await self.client.text_document_definition_async(lsp.DefinitionParams(**self.at(words, into)))
        assert isinstance(found, lsp.Location)
        path = Path(found.uri.removeprefix("file://"))
        line = (self.text if path == self.path else path.read_text()).split("\n")[found.range.start.line]
        return path.name, line[found.range.start.character : found.range.end.character]

    async def run(self, command: str, *arguments: Any) -> Any:
        return await self.client.workspace_execute_command_async(lsp.ExecuteCommandParams(command, list(arguments)))


def session(path: Path, script: Callable[[Session], Awaitable[None]]) -> None:
    async def play() -> None:
        one = Session(path)
        await one.start()
        try:
            await asyncio.wait_for(script(one), PATIENCE)
        finally:
            await one.stop()

    asyncio.run(play())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "defines.rules").write_text("define flat(x) = rank(x) == 1\n")
    return tmp_path / "my.rules"


def test_a_session(path: Path) -> None:
    async def script(one: Session) -> None:
        assert await one.opens(TEXT) == []

        found = await one.types(TEXT.replace("rank(x)", "rnak(x)").replace("Abs(Abs(x))", "Abss(Abs(x))"))
        assert {d.code: d.severity for d in found} == {
            "E207": lsp.DiagnosticSeverity.Error,
            "E101": lsp.DiagnosticSeverity.Error,
        }
        wrong = next(d for d in found if d.code == "E207")
        assert (wrong.range.start.line, wrong.range.start.character) == (6, 6) and "rank" in wrong.message
        assert (await one.types("rule"))[0].code == "E001"
        await one.types(TEXT)

        assert "opset 13..: Y = Gemm<alpha=1.0, beta=1.0, transA=0, transB=0>(A, B, C?)" in await one.hover("Gemm")
        assert "number of dimensions" in await one.hover("rank(x)", 2)
        assert "size(x) == 1" in await one.hover("and small", 5)
        assert "Another." in await one.hover("before: MY002", 9)
        assert "bound in line 6" in await one.hover("rank(x)", 5)
        assert await one.hover("<kind") == ""

        assert await one.definition("small(x) and", 2) == ("my.rules", "small")
        assert await one.definition("rank(x)", 5) == ("my.rules", "x")
        assert await one.definition("before: MY002", 9) == ("my.rules", "MY002")

        lenses = await one.client.text_document_code_lens_async(lsp.CodeLensParams(lsp.TextDocumentIdentifier(one.uri)))
        assert [lens.command.title for lens in lenses or () if lens.command] == [
            "run tests of MY001", "verify MY001", "run test of MY001", "verify MY002"
        ]  # fmt: skip
        for lens in (lenses or [])[::2]:
            assert lens.command is not None
            results = await one.run(lens.command.command, *(lens.command.arguments or ()))
            assert [result["ok"] for result in results] == [True]
        assert one.shown[-1] == "MY001: 1 of 1 tests passed"

        edits = await one.client.text_document_formatting_async(
            lsp.DocumentFormattingParams(lsp.TextDocumentIdentifier(one.uri), lsp.FormattingOptions(2, True))
        )
        assert edits and "match {\n  [n] t = Neg(x)\n" in edits[0].new_text

    session(path, script)


def test_what_is_typed_is_completed(path: Path) -> None:
    async def script(one: Session) -> None:
        await one.opens(TEXT)
        assert {"kind", "evidence", "opset"} <= (await one.complete("severity: warning, ")).keys()
        assert {"exact", "repair"} <= (await one.complete("<kind: ")).keys()
        in_pattern = await one.complete("[n] t = ")
        assert {"Gemm", "Conv", "t", "y", "maybe"} <= in_pattern.keys() and in_pattern["Gemm"].detail == "Gemm(A, B, C?)"
        assert "rank" not in in_pattern
        in_condition = await one.complete("where ")
        assert {"rank", "x", "t", "n", "small", "flat", "float"} <= in_condition.keys() and "Gemm" not in in_condition
        in_attributes = await one.complete("Gemm<")
        assert set(in_attributes) == {"alpha", "beta", "transA", "transB", "broadcast"}
        # what is not finished does not parse, and is completed all the same
        await one.types(TEXT.replace("where rank(x) == 2 and small(x) and n_outputs(n) == 1", "where n."))
        assert "inputs" in await one.complete("where n.")
        await one.types(TEXT + "\nrule MY003 third <")
        assert "kind" in await one.complete("third <")
        await one.types("/// fla\nrule MY001 x <kind: exact>\nmatch { y = Neg(x) }\nwhere flat(x)\nrewrite { y = x }\n")
        assert await one.definition("where flat", 8) == ("defines.rules", "flat")
        assert await one.complete("/// fla") == {}

    session(path, script)


def test_what_fails_is_marked(path: Path) -> None:
    pytest.importorskip("onnxruntime")

    async def script(one: Session) -> None:
        await one.opens(TEXT.replace("rank(x) == 2 and", "rank(x) == 3 and"))
        one.news.clear()
        results = await one.run("rewriter.test", one.uri)
        assert [result["ok"] for result in results] == [False]
        marked = next(d for d in await one._diagnostics() if d.source == "rewriter test")
        assert marked.range.start.line == 12 and "where rank(x) == 3" in marked.message
        assert "of 1 tests passed" in one.shown[-1]
        assert not any(d.source == "rewriter test" for d in await one.types(TEXT))
        told = await one.run("rewriter.verify", one.uri, "MY002")
        assert told[0].startswith("MY002 tested")

    session(path, script)


def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    from rewriter.app.cli.main import main
    from rewriter.core.errors import install

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["lsp"]) == 2 and install("editor") in capsys.readouterr().err
