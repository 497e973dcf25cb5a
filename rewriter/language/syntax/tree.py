"""From lark's tree of one rule to `ast.Rule`: its header and its parts.

The grammar is looser than the language where one token of look-ahead cannot tell; what it lets through is refused here and in
`tree_patterns`, `tree_rewrites` and `tree_expressions`, with the place and the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from rewriter.language import ast
from rewriter.language.syntax.code_table import as_table
from rewriter.language.syntax.tree_expressions import Part
from rewriter.language.syntax.tree_rewrites import RewriteBuilder
from rewriter.record import replace

_RANKS = {"match": 0, "match_graph": 0, "rewrite": 1, "test": 2}


class RuleBuilder(RewriteBuilder):
    """Converts one rule; what is wrong with it is in `problems` afterwards, and a rule with problems is not to be used.

    Attributes:
        text: that of the file, by which the rows of a table are told.
        slug_span: where the rule has its name.
        test_codes: the tests that say of which row they are: its code, and where the test stands.
    """

    def __init__(self, text: str, base: int, path: str, place: Callable[[ast.Span], ast.Span] | None = None) -> None:
        super().__init__(base, path, place)
        self.text = text
        self.slug_span = ast.NOWHERE
        self.test_codes: list[tuple[ast.Cell, ast.Span]] = []

    def rule(self, tree: Part) -> ast.Rule:
        docs = [part for part in tree.children if getattr(part, "type", "") == "DOC"]
        code, slug, header, table, *parts = tree.children[len(docs) :]
        self.slug_span = self.span(slug)
        of = {kind: list(group) for kind, group in groupby(sorted(parts, key=_kind), key=_kind)}
        self._complete(parts, of, code)
        return ast.Rule(
            code=str(code),
            slug=str(slug),
            doc=tuple(doc[3:].removeprefix(" ").rstrip() for doc in docs),
            meta=tuple(self._meta(item) for item in header.children if item is not None) if header is not None else (),
            match=self.match(of["match"][0]) if "match" in of else ast.Match(),
            rewrites=tuple(self.rewrite(part) for part in of.get("rewrite", ())),
            params=tuple(self._param(part) for part in of.get("param", ())),
            privates=tuple(self._private(part) for part in of.get("private", ())),
            wheres=tuple(ast.Where(self.expr(part.children[0]), self.span(part)) for part in of.get("where", ())),
            lets=tuple(self._let(part) for part in of.get("let", ())),
            tests=tuple(self._test(part) for part in of.get("test", ())),
            span=self.span(tree),
            code_span=self.span(code),
            table=None if table is None else self._table(table),
        )

    def define(self, tree: Part) -> ast.Define:
        """`define name(a, b) = expression`."""
        docs = [part for part in tree.children if getattr(part, "type", "") == "DOC"]
        begin = self.text.find("define", self.span(docs[-1]).end if docs else self.span(tree).start)
        name, *params, body = (part for part in tree.children[len(docs) :] if part is not None)
        return ast.Define(
            self.new_name(name),
            tuple(self.new_name(param) for param in params),
            self.expr(body),
            tuple(doc[3:].removeprefix(" ").rstrip() for doc in docs),
            " ".join(self.text[begin : self.span(tree).end].split()),
            self.span(tree),
            self.span(name),
        )

    def _table(self, tree: Part) -> ast.Table:
        cells = [ast.Cell(str(cell), self.span(cell)) for cell in tree.children if cell.type != "DOC"]
        docs = tuple(ast.Cell(str(doc), self.span(doc)) for doc in tree.children if doc.type == "DOC")
        return replace(as_table(self.text, cells, self.span(tree)), docs=docs)

    def _complete(self, parts: list[Part], of: dict[str, list[Part]], code: Part) -> None:
        """One `match`, at least one `rewrite`, and everything in its order."""
        if "match" not in of:
            helps = ("say what the rule looks for: match { y = Relu(x) }",)
            self.problem("E004", f"rule {code} has no `match`", self.span(code), "nothing to look for", helps)
        for again in of.get("match", [])[1:]:
            helps = ("a pattern may hold several connected nodes; for two patterns write two rules",)
            self.problem("E005", f"rule {code} has two `match` blocks", self._first_word(again), "one too many", helps)
        if "rewrite" not in of:
            helps = ("say what becomes of the match: rewrite { y = x }",)
            self.problem("E006", f"rule {code} has no `rewrite`", self.span(code), "nothing to do", helps)
        highest: Part = None
        for part in parts:
            if highest is None or _rank(part) > _rank(highest):
                highest = part
            elif _rank(part) < _rank(highest):
                helps = ("the order is: match, where, let, private and param; then rewrite; then test",)
                message = f"`{_kind(part)}` stands after `{_kind(highest)}`"
                self.problem("E007", message, self._first_word(part), "too late", helps)

    def _first_word(self, part: Part) -> ast.Span:
        start = self.span(part).start
        return ast.Span(start, start + len(_kind(part)))

    def _meta(self, tree: Part) -> ast.MetaItem:
        key, value = tree.children
        return ast.MetaItem(str(key), self._meta_value(str(key), value), self.span(tree), self.span(value))

    def _meta_value(self, key: str, value: Part) -> str | ast.OpsetRange | ast.Kind | ast.Evidence | tuple[str, ...]:
        if not hasattr(value, "children"):
            return str(value) if value.type == "COLUMN" else self.string(value)
        if value.data == "words":
            words = [word for word in value.children if word is not None]
            return tuple(self.string(word) if word.type == "STRING" else str(word) for word in words)
        if value.data != "word":
            return self.range(value)
        name, bounds = value.children
        if key == "kind":
            return self._kind_of_rule(value)
        if key == "evidence":
            return self._evidence(value)
        if bounds is not None:
            helps = (f"write just `{name}`",)
            message = f"only `kind` and `evidence` have something in parentheses, not `{key}`"
            self.problem("E011", message, self.span(bounds), "not here", helps)
        return str(name)

    def _evidence(self, tree: Part) -> ast.Evidence:
        name, inside = tree.children
        runtime = ""
        if inside is not None and inside.data == "runtime":
            runtime = str(inside.children[0])
        elif inside is not None:
            helps = ("write the name of a runtime: refused(onnxruntime)",)
            self.problem("E011", "evidence has no bounds", self.span(inside), "not here", helps)
        return ast.Evidence(str(name), runtime, self.span(tree))

    def _kind_of_rule(self, tree: Part) -> ast.Kind:
        name, bounds = tree.children
        values = {"rtol": 0.0, "atol": 0.0}
        if bounds is not None and bounds.data == "runtime":
            helps = ("write bounds with their names: approx(rtol=1e-4, atol=1e-6)",)
            self.problem("E011", "a kind has bounds in parentheses", self.span(bounds), "not a bound", helps)
            bounds = None
        tokens = [] if bounds is None else bounds.children
        for key, number in zip(tokens[::2], tokens[1::2], strict=True):
            if key in values:
                values[str(key)] = self.real(number)
            else:
                helps = ("known are rtol and atol: approx(rtol=1e-4, atol=1e-6)",)
                self.problem("E011", f"there is no bound `{key}`", self.span(key), "unknown", helps)
        return ast.Kind(str(name), values["rtol"], values["atol"], self.span(tree))

    def _param(self, tree: Part) -> ast.Param:
        name, kind, default = tree.children
        return ast.Param(self.new_name(name), str(kind), None if default is None else self.expr(default), self.span(tree))

    def _private(self, tree: Part) -> ast.Private:
        return ast.Private(tuple(str(name) for name in tree.children), self.span(tree))

    def _let(self, tree: Part) -> ast.Let:
        name, value = tree.children
        return ast.Let(self.new_name(name), self.expr(value), self.span(tree))

    def _test(self, tree: Part) -> ast.Test:
        code, title, beside, *rest = tree.children
        rest = [part for part in rest if part is not None]
        if code is not None:
            self.test_codes.append((ast.Cell(str(code), self.span(code)), self.span(tree)))
        texts = [self._fence(part) for part in rest if getattr(part, "type", "") == "FENCE"]
        after, after_span = texts[1] if len(texts) > 1 else (None, ast.NOWHERE)
        marks = [part for part in rest if getattr(part, "type", "") in ("BECOMES", "UNCHANGED", "TWIN")]
        if len(marks) != 1:
            helps = ("write `unchanged ~~~ model ~~~`, or `~~~ model ~~~ becomes ~~~ model ~~~`",)
            message = "this test says twice what is to happen" if marks else "this test does not say what is to happen"
            self.problem("E012", message, self.span(marks[-1] if marks else title), "in this test", helps)
        sources = [part for part in rest if getattr(part, "data", "") == "source"]
        for again in sources[1:]:
            self.problem("E012", "a test has one `source`", self.span(again), "the second")
        settings = [part.children for part in rest if getattr(part, "data", "") == "setting"]
        return ast.Test(
            title=self.string(title),
            before=texts[0][0],
            after=after,
            settings=tuple((str(name), self.expr(value)) for name, value in settings),
            source=self._fence(sources[0].children[0])[0] if sources else None,
            twin=any(mark.type == "TWIN" for mark in marks),
            span=self.span(tree),
            before_span=texts[0][1],
            after_span=after_span,
            beside=() if beside is None else tuple(map(str, beside.children)),
        )

    def _fence(self, token: Part) -> tuple[str, ast.Span]:
        """The text between two `~~~` without the blanks around it."""
        inner = token[3:-3]
        text = str(inner.strip())
        start = self.span(token).start + 3 + len(inner) - len(inner.lstrip())
        return text, ast.Span(start, start + len(text))


def _kind(part: Part) -> str:
    return str(part.data).removesuffix("_graph")


def _rank(part: Part) -> int:
    return _RANKS.get(part.data, 0)
