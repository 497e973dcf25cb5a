"""Rule files and their cache entries: parsing and checking takes some hundred times as long as reading the result back.

The key of compiled rules is made of the texts and their names; the store adds the versions of this package, of Python and of
ONNX. So the cache needs no invalidation. If a file has not changed for a while, its state (size, times, number on the disk)
replaces its text in the key, and the text need not be read. As in git's index, a file that was written just before its state
was taken is not trusted, since it may be written again without a trace.

The text of an entry is the data that every rule is asked for (code, header, doc comment, digest), ready for use. Its tail are
the syntax trees, which are read when one is needed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from functools import cached_property, partial

from rewriter.core.language.cache import store
from rewriter.core.language.cache.pack import PackedTrees, built, flat, pack, question
from rewriter.core.language.diagnostics import Diagnostic, SourceText
from rewriter.core.language.rule import Rule
from rewriter.core.language.rule_files import read_rule_file, read_unchanged, state_of, with_defines

CLOCK_STEP = 2_000_000_000  # nanoseconds after which the clock of any disk has gone on

RulesAndWarnings = tuple[list[Rule], tuple[Diagnostic, ...]]


class Library:
    """Rule files and their cache entries.

    Attributes:
        states: the states of the files when they were first looked at.
        sources: the texts of the files. Each is read when it is first needed.

    Raises:
        RewriterError: a file cannot be read.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.begun = time.time_ns()
        self.states = [state_of(path) for path in with_defines(paths)]
        self.sources = [SourceText(state[0], partial(read_unchanged, state)) for state in self.states]

    @property
    def is_stable(self) -> bool:
        """Whether the states identify the texts: a file that was just written may be written again without a trace."""
        return all(max(state[2], state[3]) < self.begun - CLOCK_STEP for state in self.states)

    @cached_property
    def texts(self) -> list[SourceText]:
        """The texts as they are now."""
        self.sources = [SourceText(state[0], read_rule_file(state[0])) for state in self.states]
        return self.sources

    def read(self, kind: str) -> RulesAndWarnings | None:
        """The rules with the warnings, if the cache has both; `kind` names the steps that were applied to them."""
        key = store.read("states", self._key_of_states(kind))
        rules = None if key is None else _read(key, self.sources)
        if rules is None:
            key = self._key(kind)
            rules = _read(key, self.texts)
            if rules is not None:
                self._write_states(kind, key)
        return rules

    def write(self, kind: str, rules: Sequence[Rule], warnings: Sequence[Diagnostic]) -> None:
        """Adds the rules to the cache."""
        numbers = {source.path: number for number, source in enumerate(self.sources)}
        fronts = [(numbers[rule.path], flat(rule.front)) for rule in rules]
        trees = [flat(rule.ast) for rule in rules]
        text = [pack((fronts, flat(tuple(warnings)))), *[pack(question(tree)) for tree in trees]]
        key = self._key(kind)
        store.write("rules", key, "\n".join(text), "\n".join(map(pack, trees)))
        self._write_states(kind, key)

    def _key(self, kind: str) -> str:
        """The key of the data that is derived from the texts."""
        from hashlib import sha256

        digest = sha256(kind.encode())
        for source in self.texts:
            text = source.text.encode()
            digest.update(f"\0{len(source.path)} {len(text)} {source.path}\0".encode(errors="surrogateescape"))
            digest.update(text)
        return digest.hexdigest()[:32]

    def _key_of_states(self, kind: str) -> str:
        return json.dumps((kind, self.states))

    def _write_states(self, kind: str, key: str) -> None:
        """For a process that finds the files in these states, the key that follows from their texts."""
        if self.is_stable:
            store.write("states", self._key_of_states(kind), key)


def _read(key: str, sources: Sequence[SourceText]) -> RulesAndWarnings | None:
    data = store.read("rules", key)
    if data is None:
        return None
    trees = PackedTrees(key)
    first, *questions = data.split("\n")
    fronts, warnings = json.loads(first)
    rules = [
        Rule.from_cache((trees, number, questions[number]), built(front), sources[place])
        for number, (place, front) in enumerate(fronts)
    ]
    return rules, built(warnings)
