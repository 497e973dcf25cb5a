"""Options that several commands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Parser(argparse.ArgumentParser):
    """A parser with help as wide as the terminal, for which it does not import `shutil` and with that three compressors.

    Every declaration of an option makes a formatter, which asks for the width.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **{"formatter_class": Lines, **named})

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2 and one line; the usage would be a page."""
        self.exit(2, f"rewriter: error: {message}; `{self.prog} --help` explains\n")


class Lines(argparse.HelpFormatter):
    """Help in lines that fit the terminal."""

    def __init__(self, prog: str, *args: Any, **named: Any) -> None:
        super().__init__(prog, *args, **{"width": _columns() - 2, **named})


class Raw(Lines, argparse.RawDescriptionHelpFormatter):
    """Help that leaves descriptions and examples as they are."""


def _columns() -> int:
    """As `shutil.get_terminal_size` has it."""
    try:
        given = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        given = 0
    if given > 0:
        return given
    try:
        found = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        found = 0
    return found if found > 0 else 80


class Help(Lines):
    """Help that breaks the lines of a description, but not those of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


class CommandParser(Parser):
    """The parser of one command, with what all of them have."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, formatter_class=Help, **named)
        self.add_argument(
            "--debug", action="store_true", help="show the traceback of an internal error (or set REWRITER_DEBUG=1)"
        )


def add_rule_paths(parser: argparse.ArgumentParser) -> None:
    """`--rules`."""
    parser.add_argument(
        "--rules",
        metavar="PATH",
        action="append",
        help="rule file or folder, or pack:NAME of an installed package, instead of the shipped rules; may be repeated, and "
        "the word `shipped` adds those again",
    )
    parser.add_argument(
        "--extend", metavar="PATH", action="append", help="rule file, folder or pack:NAME besides those; may be repeated"
    )


def add_target(parser: argparse.ArgumentParser, what: str) -> None:
    """`--target`."""
    parser.add_argument(
        "--target",
        metavar="NAMES",
        action="append",
        help=f"comma-separated consumers (tensorrt, ncnn, ...), or ALL of them: {what}",
    )


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """`--config`, `--no-config`, `--show-settings`; options that a file may set have the default None (see `configured`)."""
    group = parser.add_argument_group("configuration")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--config",
        metavar="FILE",
        help="configuration (default: rewriter.toml, or pyproject.toml with [tool.rewriter], here or in a folder above)",
    )
    which.add_argument("--no-config", action="store_true", help="use no configuration file")
    group.add_argument("--show-settings", action="store_true", help="print each setting and where it is from, and do nothing")


def add_format(parser: argparse.ArgumentParser) -> None:
    """`--format`."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how results are printed (default: text)")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Everything that decides what `fix` and `check` do with a model."""
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", help="model, folder that is searched for *.onnx, URL, or - (standard input)"
    )
    add_which_rules(parser)
    add_what_is_known(parser)
    add_configuration(parser)
    limits = parser.add_argument_group("limits")
    limits.add_argument("--jobs", metavar="N", type=count, help="models worked on at once, each in a process (default: 1)")
    limits.add_argument(
        "--scheduler", metavar="WHERE", help="a Dask cluster that works on the models: dask://HOST:PORT, or local"
    )
    add_limits(limits, "one model")
    limits.add_argument(
        "--sandbox",
        action="store_true",
        help="work without network, and with no files but those of the models, their results and reports, and Python's; needs "
        "bubblewrap (Linux)",
    )
    limits.add_argument("--max-firings", metavar="N", type=count, help="stop a model after so many rewrites")
    limits.add_argument("--timeout", metavar="SECONDS", type=seconds, help="stop rewriting a model after this time")
    results = parser.add_argument_group("what is told")
    results.add_argument(
        "--format",
        choices=("text", "json", "github"),
        default="text",
        help="how results are printed: as text (default), as JSON, or as annotations of a GitHub workflow",
    )
    results.add_argument(
        "--report",
        metavar="FILE",
        action="append",
        default=[],
        help="also write a report, of the sort that the ending says: .html, .md, .json, .sarif, .csv, .junit.xml or .xml; "
        "may be repeated; an existing file is replaced",
    )
    results.add_argument(
        "--exit-zero", action="store_true", help="exit with 0, not with 1, when there are findings or models still refused"
    )
    results.add_argument(
        "--verbose", action="store_true", help="of several models, also name those about which nothing is to say"
    )


def add_runtime(parser: Any, what: str) -> None:
    """`--runtime`."""
    parser.add_argument(
        "--runtime", choices=("auto", "yes", "no"), default="auto", help=f"whether ONNX Runtime {what} (default)"
    )


def add_limits(parser: Any, what: str, default: str = "", *, whole: float | None = None) -> None:
    """`--time-limit`, `--memory-limit`.

    Args:
        parser: of a command, or a group of its options.
        what: they are for.
        default: of the time, in words, where it is not `whole` or 60 seconds, and more for large files.
        whole: seconds by default, where the limits are for all that the command does; `main` sees to them then.
    """
    default = default or f"{whole or 60:g}, and more for large files"
    if whole is not None:
        parser.set_defaults(limited=whole)
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=seconds,
        help=f"for {what}, whatever it is that takes so long (default: {default})",
    )
    parser.add_argument(
        "--memory-limit",
        metavar="SIZE",
        type=size_text,
        help=f"for {what}, as 512M or 8G (default: three quarters of the machine's memory, divided by --jobs)",
    )


def limits_of(args: argparse.Namespace, seconds: float | None = None) -> dict[str, Any]:
    """What `--time-limit` and `--memory-limit` say, by the names that `Work` has for them; nothing without these options.

    `seconds` are those of a command with a default of its own.
    """
    if "time_limit" not in args:
        return {}
    from rewriter.trust.proof.judges.child import SECONDS, share_of_machine

    most, processes = args.memory_limit, getattr(args, "jobs", 1)
    return {
        "seconds": args.time_limit or seconds or getattr(args, "limited", SECONDS),
        "memory": share_of_machine(processes) if most is None else size(most),
    }


def add_which_rules(parser: argparse.ArgumentParser) -> None:
    """`--rules`, `--target`, `--select`, `--ignore`, `--set`."""
    which = parser.add_argument_group("which rules")
    add_rule_paths(which)  # type: ignore[arg-type]
    add_target(which, "also rules that bring models into the form that they take")  # type: ignore[arg-type]
    which.add_argument(
        "--select",
        metavar="CODES",
        action="append",
        help="comma-separated codes or beginnings of codes, ALL, NONE, OPTIMIZE or BASIC (default: DEFAULT, the rules that run "
        "by default; of `optimize` what --level selects)",
    )
    which.add_argument("--ignore", metavar="CODES", action="append", help="codes not to run; the longer name wins")
    which.add_argument(
        "--guess",
        action=Switch,
        default=None,
        help="also run repairs whose evidence is a guess: the model does not tell whether they are due",
    )
    which.add_argument("--set", metavar="CODE.param=value", action="append", help="a rule's parameter; may be repeated")


def add_what_is_known(parser: argparse.ArgumentParser) -> None:
    """`--source`, `--constant-inputs`."""
    facts = parser.add_argument_group("what is known of the model")
    facts.add_argument(
        "--source",
        metavar="FILE",
        help="the framework's own file (MXNet symbol.json, or a JSON/CSV table by node name), `none`, or `auto`: "
        "NAME-symbol.json or symbol.json beside the model (default)",
    )
    facts.add_argument(
        "--constant-inputs",
        choices=("auto", "yes", "no"),
        help="whether initializers that are also inputs are constants; auto: yes when all are (default)",
    )


class Switch(argparse.BooleanOptionalAction):
    """`--tidy` and `--no-tidy`: what a configuration turns on, an option must be able to turn off."""

    def __init__(self, option_strings: Sequence[str], dest: str, **others: Any) -> None:
        described = others.get("help")
        super().__init__(option_strings, dest, **others)
        self.help = described  # Python 3.10 to 3.12 would add a default, which is not known here


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


def static_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """An input and its shape, as x:1,3,224,224; a name may have colons itself."""
    name, colon, dims = text.rpartition(":")
    lengths = dims.split(",") if dims else []
    if not (colon and name) or not all(part.isascii() and part.isdigit() and int(part) < 1 << 40 for part in lengths):
        raise argparse.ArgumentTypeError(f"{text!r} is not an input and its shape, as x:1,3,224,224")
    return name, tuple(map(int, lengths))


def size(text: str) -> int:
    """Bytes, as 1000, 64K, 256M or 2G."""
    digits, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in "KMG" and text else (text, "")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 1 << 40:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, as 256M")
    return int(digits) * UNITS[unit]


def size_text(text: str) -> str:
    """What `size` reads, as it was written."""
    size(text)
    return text


def add_static(parser: argparse.ArgumentParser, what: str) -> None:
    """`--static`."""
    parser.add_argument(
        "--static",
        metavar="INPUT:SHAPE",
        type=static_shape,
        action="append",
        default=[],
        help=f"{what}, as x:1,3,224,224; may be repeated. Dimensions of one name get one length",
    )


def runtime_choice(choice: str) -> str:
    """Whether ONNX Runtime is asked, by what `--runtime` says and whether it is installed: "no", "auto" or "yes".

    Raises:
        RewriterError: it is to be asked, and is not installed.
    """
    from rewriter.app.cli.output import say
    from rewriter.core.errors import RewriterError, install
    from rewriter.trust.proof.onnx_runtime import installed

    if choice == "yes" and not installed():
        raise RewriterError(f"--runtime needs ONNX Runtime; install it with: {install('verify')}")
    if choice == "auto" and not installed():
        say(f"rewriter: note: ONNX Runtime is not installed and not asked whether it takes the models: {install('verify')}")
    return choice if installed() else "no"
