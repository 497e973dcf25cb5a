"""Which defines the rules of a file may call besides its own: those of `defines.rules` in its folder, and of the one in the
folder above, where a pack has what all its folders share. The nearer one wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rewriter.language import ast
from rewriter.language.diagnostics import SourceText
from rewriter.language.rule_files import read_rule_file

NAME = "defines.rules"
_NONE: Mapping[str, ast.Define] = MappingProxyType({})


def with_defines(paths: Iterable[str]) -> list[str]:
    """Rule files, and the files of defines that they read."""
    found = list(paths)
    listed = {os.path.realpath(path) for path in found if os.path.basename(path) == NAME}
    for path in _defining(dict.fromkeys(map(os.path.dirname, found))):
        if os.path.realpath(path) not in listed:
            listed.add(os.path.realpath(path))
            found.append(path)
    return found


def _defining(folders: Iterable[str]) -> Iterable[str]:
    for folder in folders:
        for path in (os.path.join(folder, os.pardir, NAME), os.path.join(folder, NAME)):
            if os.path.isfile(path):
                yield os.path.normpath(path)


class SharedDefines:
    """The defines that files share; each file of them is read once. `sources` are texts that were read before."""

    def __init__(self, sources: Iterable[SourceText] = ()) -> None:
        self._sources = {os.path.realpath(source.path): source for source in sources if os.path.basename(source.path) == NAME}
        self._of_folders: dict[str, Mapping[str, ast.Define]] = {}

    def of(self, path: str) -> Mapping[str, ast.Define]:
        """What a rule file may call. Raises RewriterError where a file of defines cannot be read."""
        folder = os.path.dirname(path)
        found = self._of_folders.get(folder)
        if found is None:
            found = _NONE
            for other in _defining([folder]):
                found = self._read(other, found)
            self._of_folders[folder] = found
        return found

    def _read(self, path: str, above: Mapping[str, ast.Define]) -> Mapping[str, ast.Define]:
        from rewriter.language.expand.define_calls import settled
        from rewriter.language.parse import parse

        source = self._sources.get(os.path.realpath(path))
        text = read_rule_file(path) if source is None else source.text
        return settled(parse(text, path)[0].defines, above)[0]  # what is wrong there is told of that file
