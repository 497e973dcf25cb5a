"""Pages by error message: what the message means, which exporter writes such a model and why, what repairs it, and what to
do if no rule does. The text about a cause is the doc comment of the rule, so that it is written once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from rewriter.core.language.rules import Rule

_NAME = 60  # characters of a message in the name of its page
_PROMISES = {
    "exact": "keeps the outputs",
    "approx": "keeps the outputs within a stated bound",
    "repair": "makes the outputs those of the framework",
    "lossy": "changes outputs on purpose",
    "interface": "changes inputs or outputs of the model on purpose",
}
_LABEL = re.compile(r"(?m)^(Why|Fix|Exporters|Consumers|Guard|Safe because): ")


def by_message(rules: Sequence[Rule]) -> dict[str, list[Rule]]:
    """The rules for each message, in the order of the pages."""
    said: dict[str, list[Rule]] = {}
    for rule in rules:
        for symptom in rule.header.symptoms:
            said.setdefault(symptom, []).append(rule)
    return dict(sorted(said.items(), key=lambda item: item[0].strip("[\"'").lower()))


def page_name(message: str) -> str:
    """The name of the page of a message; a hash distinguishes messages that differ in signs only."""
    words = re.sub(r"[^a-z0-9]+", "-", message.strip().lower()).strip("-")[:_NAME].strip("-")
    return f"{words}-{sha256(message.strip().encode()).hexdigest()[:4]}"


def linked(text: str) -> str:
    """A list of messages with a link to its own page after each heading. Those pages are on the site, and not in git."""
    return re.sub(
        r"(?m)^## `(.+)`$",
        lambda found: f"{found[0]}\n\n[What it means and what to do]({page_name(found[1])}.md)\n",
        text,
    )


def symptom_pages(rules: Sequence[Rule], plain: Callable[[str], str]) -> Mapping[str, str]:
    """Each page by its name."""
    return {f"{page_name(message)}.md": _page(message, found, plain) for message, found in by_message(rules).items()}


def _page(message: str, rules: Sequence[Rule], plain: Callable[[str], str]) -> str:
    shown = message.strip()
    parts = [f"# `{shown}`"]
    if len(rules) > 1:
        parts.append(
            f"{len(rules)} defects end in this message. `rewriter check MODEL` reports which one your model has. The "
            "command below each defect repairs it."
        )
    for rule in rules:
        parts += _cause(rule, plain, alone=len(rules) == 1)
    parts += ["## When no rule repairs the model", _helpless(rules, shown)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cause(rule: Rule, plain: Callable[[str], str], *, alone: bool) -> list[str]:
    title, _, rest = rule.doc.partition("\n")
    prose, *labelled = _LABEL.split(rest)
    said = {name: plain(" ".join(text.split())) for name, text in zip(labelled[::2], labelled[1::2], strict=True)}
    parts = [f"## {'What it means' if alone else plain(title.strip())}", plain(title.strip()) if alone else ""]
    parts += [plain(" ".join(paragraph.split())) for paragraph in re.split(r"\n\s*\n", prose.strip())]
    parts += [said[label] for label in ("Why", "Fix") if label in said]
    if "Exporters" in said:
        parts.append(f"**Who writes it:** {said['Exporters']}")
    if "Consumers" in said:
        parts.append(f"**Who rejects it:** {said['Consumers']}")
    parts.append(f"**What repairs it:** rule [{rule.code}](../rules/{rule.code}.md), which {_PROMISES[rule.kind.name]}:")
    parts.append(f"    rewriter fix net.onnx -o fixed.onnx{_options(rule)}")
    if guard := said.get("Guard") or said.get("Safe because"):
        parts.append(f"**When it applies:** {guard}")
    if rule.issues:
        parts += ["**Upstream:**", "\n".join(f"- <{issue}>" for issue in rule.issues)]
    return parts


def _options(rule: Rule) -> str:
    """The options for a rule that does not run by default."""
    if rule.default:
        return ""
    return f" --target {rule.targets[0]}" if rule.header.on_target else f" --select DEFAULT,{rule.code}"


def _helpless(rules: Sequence[Rule], message: str) -> str:
    words = message.replace("'", "").splitlines()[0][:_NAME]
    own = "[a rule of your own](../writing-rules.md)"
    steps = [
        f"`rewriter why {rules[0].code} net.onnx` explains at each node what keeps the rule from firing: often a shape that "
        "the model does not declare. `rewriter infer net.onnx -o inferred.onnx` declares what follows from the inputs, and "
        "`rewriter edit net.onnx --batch 1 -o one.onnx` fixes a free batch dimension."
    ]
    if any("mxnet" in rule.exporters for rule in rules):
        steps.append(
            "`--source net-symbol.json` lets the rules read MXNet's own file, which still has what the exporter dropped."
        )
    steps.append(
        "`rewriter check net.onnx` prints questions about facts that only you may know, with the options that answer them."
    )
    if any(rule.targets for rule in rules):
        steps.append(
            f"Otherwise the defect may be new: write {own}, or report it with the model and the version of the consumer."
        )
    else:
        steps.append(
            f"Otherwise the defect may be new. `rewriter reduce net.onnx --keep 'refused: {words}' -o small.onnx` makes a "
            f"small model of it, for a report to the project of the exporter or for {own}."
        )
    return "\n".join(f"- {step}" for step in steps)
