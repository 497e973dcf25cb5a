"""Options that several commands share."""

from __future__ import annotations

import argparse


def add_rule_paths(parser: argparse.ArgumentParser) -> None:
    """`--rules`."""
    parser.add_argument(
        "--rules",
        metavar="PATH",
        action="append",
        help="rule file or folder, instead of the shipped rules; may be repeated, and the word `shipped` adds those again",
    )


def add_target(parser: argparse.ArgumentParser, what: str) -> None:
    """`--target`."""
    parser.add_argument(
        "--target",
        metavar="NAMES",
        action="append",
        default=[],
        help=f"comma-separated consumers (tensorrt, ncnn, ...): {what}",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """`--format`."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how results are printed (default: text)")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Everything that decides what `fix` and `check` do with a model."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help="model, or folder that is searched for *.onnx")
    add_which_rules(parser)
    add_what_is_known(parser)
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--jobs", metavar="N", type=count, default=1, help="models worked on at once, each in a process (default: 1)"
    )
    limits.add_argument("--max-firings", metavar="N", type=count, help="stop a model after so many rewrites")
    limits.add_argument("--timeout", metavar="SECONDS", type=seconds, help="stop rewriting a model after this time")
    add_format(parser)


def add_which_rules(parser: argparse.ArgumentParser) -> None:
    """`--rules`, `--target`, `--select`, `--ignore`, `--set`."""
    which = parser.add_argument_group("which rules")
    add_rule_paths(which)  # type: ignore[arg-type]
    add_target(which, "also rules that bring models into the form that they take")  # type: ignore[arg-type]
    which.add_argument(
        "--select",
        metavar="CODES",
        action="append",
        default=[],
        help="comma-separated codes or beginnings of codes, ALL, or NONE (default: DEFAULT, the rules that run unasked)",
    )
    which.add_argument("--ignore", metavar="CODES", action="append", default=[], help="codes not to run; the longer name wins")
    which.add_argument(
        "--set", metavar="CODE.param=value", action="append", default=[], help="a rule's parameter; may be repeated"
    )


def add_what_is_known(parser: argparse.ArgumentParser) -> None:
    """`--source`, `--constant-inputs`."""
    facts = parser.add_argument_group("what is known of the model")
    facts.add_argument(
        "--source",
        metavar="FILE",
        default="auto",
        help="the framework's own file (MXNet symbol.json, or a JSON/CSV table by node name), `none`, or `auto`: "
        "NAME-symbol.json or symbol.json beside the model (default)",
    )
    facts.add_argument(
        "--constant-inputs",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether initializers that are also inputs are constants; auto: yes when all are (default)",
    )


def count(text: str) -> int:
    """A positive integer."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= 1_000_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return number


def seconds(text: str) -> float:
    """A positive time."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds")
    return number
