"""The rules and the error messages by group: an index of each kind, and a page for each group.

A group is an exporter, or the folder of rules that are for any exporter. No page is for more than one group, so that pages
stay short enough to look things up in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from page_text import block, cell, link, plain
from rewriter.app.cli.main import main as main_of_commands
from rewriter.core.language.rules import Rule
from symptom_pages import by_message

GROUPS = {
    "pytorch": "PyTorch's exporters",
    "tensorflow": "tf2onnx, and rules for graphs that come from TensorFlow",
    "mxnet": "MXNet's mx2onnx",
    "paddle": "paddle2onnx",
    "sklearn": "skl2onnx",
    "onnxmltools": "onnxmltools: XGBoost, LightGBM and others",
    "catboost": "CatBoost",
    "jax": "jax2onnx, and graphs that come from JAX",
    "nnabla-onnx": "nnabla's exporter",
    "hygiene": "faults of the model as a whole: names, order, opsets, declarations",
    "types": "element types that an operator or a runtime does not allow",
    "legacy": "attributes, inputs and operators of another opset",
    "generic": "nodes that do nothing or lack an attribute, from any exporter",
    "boosting": "ensembles of trees, from any exporter",
    "quantization": "quantized operators",
    "numerics": "overflow and underflow in float16",
    "onnxruntime": "operators that only ONNX Runtime has",
    "optimize": "fewer or faster nodes with the same output",
    "surgery": "changes of inputs and outputs",
    "targets": "forms that one consumer needs, for `--target`",
}
"""The groups in the order of the indexes, with what their rules are about."""

TOOLS = ("TensorRT", "OpenVINO", "Core ML", "ncnn", "OpenCV", "tract")
"""Consumers other than ONNX Runtime and the checker, as doc comments of rules name them."""

EXAMPLE = "Type 'tensor(bool)' of input parameter (x) of operator (CumSum) in node (n1) is invalid"


def grouped(rules: Sequence[Rule]) -> dict[str, list[Rule]]:
    """The rules of each group that has any. A rule for two exporters is in both groups.

    Raises:
        KeyError: a rule is in a folder or for an exporter without a row in `GROUPS`.
    """
    groups: dict[str, list[Rule]] = {name: [] for name in GROUPS}
    for rule in rules:
        for name in rule.exporters or (Path(rule.path).parent.name,):
            groups[name].append(rule)
    return {name: members for name, members in groups.items() if members}


# --- Rules -----------------------------------------------------------------------------------------------------------------


def rule_index(rules: Sequence[Rule]) -> str:
    """The groups of rules, the targets, and the pages by effect."""
    default = sum(rule.default for rule in rules)
    rows = (f"| [{name}](rules/{name}.md) | {len(members)} | {GROUPS[name]} |" for name, members in grouped(rules).items())
    parts = [
        "# The rules",
        "Use this page to find the shipped rules for your exporter or your target. `rewriter rules` lists them by exporter, "
        f"and `rewriter rule CODE` one rule. {len(rules):,} rules are shipped. {default} of them run by default. The others "
        "run for a consumer (`--target`) or if you select them (`--select`).",
        "If you have an error message, look it up in [symptoms](symptoms.md).",
        "## By exporter",
        "If no exporter is named, the rules of a group are for models of any exporter.",
        "\n".join(["| group | rules | about |", "|---|---|---|", *rows]),
        "## By target",
        "`rewriter rules --target NAME` lists the rules of a target, and `rewriter fix --target NAME` runs them.",
    ]
    targets = sorted({target for rule in rules for target in rule.targets})
    rows = (f"| {name} | {sum(name in r.targets for r in rules)} |" for name in targets)
    parts += [
        "\n".join(["| target | rules |", "|---|---|", *rows]),
        "## By effect",
        "\n".join(
            [
                "| page | rules for |",
                "|---|---|",
                "| [wrong output](rules/wrong-output.md) | models that load and compute wrong output |",
                f"| [consumers](rules/consumers.md) | models that {', '.join(TOOLS)} reject |",
            ]
        ),
        "Most other rules repair a model that ONNX Runtime or the checker rejects.",
        "Next: [find out why a loaded model computes something else](wrong-output.md), or [targets](targets.md).",
    ]
    return "\n\n".join(parts) + "\n"


def names(text: str, tool: str) -> bool:
    """Whether a text has the name of a tool: "subtract" has none."""
    return re.search(rf"\b{tool}\b", text) is not None


def _names_a_tool(text: str) -> bool:
    return any(names(text, tool) for tool in ("ONNX Runtime", "checker", *TOOLS))


def rule_groups(rules: Sequence[Rule]) -> dict[str, str]:
    """A page for each group of rules, and pages of rules by effect, by their names."""
    pages = {f"{name}.md": _rule_group(name, members) for name, members in grouped(rules).items()}
    return pages | {"consumers.md": _by_consumer(rules), "wrong-output.md": _of_wrong_output(rules)}


def _by_consumer(rules: Sequence[Rule]) -> str:
    """The rules whose doc comment or target names a consumer other than ONNX Runtime."""
    parts = ["# Rules by the consumer that rejects the model", "A rule for several consumers is listed at each of them."]
    for tool in TOOLS:
        found = [r for r in rules if names(r.doc, tool) or tool.lower().replace(" ", "") in r.targets]
        if found:
            parts += [f"## {tool}", _table(found)]
    return "\n\n".join([*parts, "Next: [targets](../targets.md), or [all groups](../rules.md)."]) + "\n"


def _of_wrong_output(rules: Sequence[Rule]) -> str:
    """The repairs whose models no tool rejects, by group."""
    silent = [r for r in rules if r.kind.name == "repair" and not r.header.symptoms and not _names_a_tool(r.doc)]
    parts = [
        "# Rules for models that load and compute wrong output",
        f"{len(silent)} rules repair models that load. To find out which of them your model needs, run "
        "`rewriter check net.onnx --expect net.npz`.",
    ]
    for name, members in grouped(silent).items():
        parts += [f"## {name}", _table(members)]
    return "\n\n".join([*parts, "Next: [wrong output](../wrong-output.md), or [all groups](../rules.md)."]) + "\n"


def _table(rules: Sequence[Rule]) -> str:
    rows = (f"| {link(r, '../../')} | {r.kind.name} | {_runs(r)} | {cell(r.title)} |" for r in rules)
    return "\n".join(["| rule | kind | runs | defect |", "|---|---|---|---|", *rows])


def _rule_group(name: str, rules: Sequence[Rule]) -> str:
    parts = [
        f"# Rules: {name}",
        f"{len(rules)} rules: {GROUPS[name]}. `rewriter rule {rules[0].code}` prints one of them, with its tests.",
        _table(rules),
    ]
    if any(rule.header.symptoms for rule in rules):
        parts.append(f"Next: [their error messages](../symptoms/{name}.md), or [all groups](../rules.md).")
    else:
        parts.append("Next: [all groups](../rules.md).")
    return "\n\n".join(parts) + "\n"


def _runs(rule: Rule) -> str:
    """The option for which a rule runs, or "default"."""
    return "default" if rule.default else ", ".join(rule.targets) if rule.header.on_target else "selected"


# --- Error messages --------------------------------------------------------------------------------------------------------


def symptom_index(rules: Sequence[Rule]) -> str:
    """How to find a message, and the groups of messages."""
    answer = StringIO()
    with redirect_stdout(answer), redirect_stderr(StringIO()):
        main_of_commands(["rules", "--symptom", EXAMPLE, "--no-config"])
    groups = _message_groups(rules)
    rows = (f"| [{name}](symptoms/{name}.md) | {len(said)} | {GROUPS[name]} |" for name, said in groups.items())
    parts = [
        "# Rules by error message",
        "Use this page if ONNX Runtime, the checker or another consumer rejects your model, and you have its error message. "
        "Pass the message to `--symptom`:",
        block(f'$ rewriter rules --symptom "{EXAMPLE}"\n{answer.getvalue().rstrip()}', "text"),
        "If you have the model, `rewriter check MODEL` reports which rules apply to it, and `rewriter why CODE MODEL` why a "
        "rule does not apply.",
        f"{len(by_message(rules))} messages are known. The pages below list them by the exporter of the model, or by the kind "
        "of defect if it occurs in models of any exporter:",
        "\n".join(["| messages | number | about |", "|---|---|---|", *rows]),
        "Next: [all rules](rules.md), or [a model that loads and computes wrong output](wrong-output.md).",
    ]
    return "\n\n".join(parts) + "\n"


def _message_groups(rules: Sequence[Rule]) -> dict[str, dict[str, list[Rule]]]:
    groups = {name: by_message(members) for name, members in grouped(rules).items()}
    return {name: said for name, said in groups.items() if said}


def symptom_groups(rules: Sequence[Rule]) -> dict[str, str]:
    """A page for each group of error messages, by its name."""
    return {f"{name}.md": _symptom_group(name, said) for name, said in _message_groups(rules).items()}


def _symptom_group(name: str, said: dict[str, list[Rule]]) -> str:
    parts = [
        f"# Error messages: {name}",
        f"{len(said)} error messages of models that these rules repair: {GROUPS[name]}. "
        "`rewriter rules --symptom TEXT` searches all groups.",
    ]
    for text, members in said.items():
        rows = (f"- {link(rule, '../../')}: {plain(rule.title)}{_option(rule)}" for rule in members)
        parts.append("\n".join([f"## `{text.strip()}`", *rows]))
    parts.append(f"Next: [the rules of this group](../rules/{name}.md), or [all messages](../symptoms.md).")
    return "\n\n".join(parts) + "\n"


def _option(rule: Rule) -> str:
    """The option for a rule that does not run by default."""
    if rule.default:
        return ""
    return f" (`--target {rule.targets[0]}`)" if rule.header.on_target else f" (`--select DEFAULT,{rule.code}`)"
