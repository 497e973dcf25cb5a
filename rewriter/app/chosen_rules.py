"""The rules that the functions of the Python interface run, from their arguments. `cli.settings` does the same for the options
of commands.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from rewriter.app.configuration import files_at, rule_paths
from rewriter.core.errors import RewriterError
from rewriter.core.language.diagnostics import suggest
from rewriter.core.language.rule_files import as_paths
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.rule_tools.load_rules import load_rules

Texts = str | Sequence[str]
StrPath = os.PathLike[str] | str
Rules = RuleSet | StrPath | Sequence[StrPath] | None


def chosen_rules(
    rules: Rules,
    select: Texts,
    ignore: Texts,
    target: Texts,
    *,
    guess: bool = False,
    level: str = "",
    is_repair: bool = False,
) -> RuleSet:
    """The rules that the arguments of a function name. A rule set that is already a selection is kept unless they name rules.
    Without `select`, the rules of `level` run, and, as on the command line, the rules of rule files that are named by path.
    The recipes of the targets leave rules out then, and an `is_repair` also optimizes if that is a safe step of a recipe.

    Raises:
        RewriterError: a path or a name matches no rule, or a rule file is wrong.
    """
    known = loaded_rules(rules)
    wanted, ignored, targets = _words(select), _words(ignore), [name.lower() for name in _words(target)]
    if known.selected and not (wanted or ignored or targets or guess or level):
        return known
    files = files_at([] if wanted else _paths(rules), (rule.path for rule in known))
    if targets and not wanted:
        from rewriter.trust.consumers.target_recipes import left_out, repair_words

        ignored = [*ignored, *left_out(targets, known)]
        wanted = list(repair_words(targets)) if is_repair else []
    return known.select(wanted or _words(level), ignored, targets, guess=guess, files=files)


def loaded_rules(rules: Rules) -> RuleSet:
    """The rules of an argument: None means the shipped rules, and an empty list no rules.

    Raises:
        RewriterError: a path names no rule file, or a rule file is wrong.
    """
    if isinstance(rules, RuleSet):
        return rules
    if rules is None:
        return load_rules()
    paths = _paths(rules)
    return load_rules(rule_paths(paths)) if paths else RuleSet()


def _paths(rules: Rules) -> list[str]:
    if rules is None or isinstance(rules, RuleSet):
        return []
    return [str(path) for path in as_paths(rules)]


def _words(texts: Texts) -> list[str]:
    listed = [texts] if isinstance(texts, str) else texts
    if not isinstance(listed, Collection) or not all(isinstance(text, str) for text in listed):
        raise RewriterError(f"codes and names are a text or a list of texts, not {texts!r}")
    return [word.upper() for text in listed for word in text.replace(",", " ").split()]


def find_rule(code: str, rules: Sequence[Rule]) -> Rule:
    """The rule of a code (letters of either case), or the rule that replaced it.

    Raises:
        RewriterError: there is no such rule.
    """
    wanted = code.upper()
    for rule in rules:
        if rule.code.upper() == wanted or wanted in rule.header.replaces:
            return rule
    near = suggest(wanted, [rule.code for rule in rules])
    hint = f"did you mean {near}?" if near else "`rewriter rules` lists them"
    if "." in code:
        hint = "name the rule first, then the model"
    raise RewriterError(f"there is no rule {code!r}; {hint}")
