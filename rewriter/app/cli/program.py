"""The parsers of the program and its commands, from the declarations of commands; near misses of names and options."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator, Iterable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from rewriter import __version__
from rewriter.app.cli.options import COMMANDS_BY_NAME, OPTIONS, Element, Group, Limits, OneOf
from rewriter.app.cli.output import terminal_width

GROUPS = {
    "repair": ("fix", "check", "plan", "apply", "why"),
    "change": (
        "optimize", "extract", "split", "merge", "edit", "reduce", "opset", "infer", "save", "convert", "quantize-prep", "text",
        "undo",
    ),
    "inspect": ("show", "view", "picture", "diff", "compare", "history", "audit", "run", "bench"),
    "rules": ("rules", "rule", "new", "new-pack", "test", "fmt", "verify", "lint", "coverage", "explain", "lsp"),
    "about": ("help",),
}  # fmt: skip
"""Commands by purpose."""

MODULES = {
    "rewriter.app.cli.commands.repair": GROUPS["repair"],
    "rewriter.app.cli.commands.change": GROUPS["change"],
    "rewriter.app.cli.commands.inspect": GROUPS["inspect"],
    "rewriter.app.cli.commands.rules": ("rules", "rule", "new", "new-pack", "fmt", "explain", "lsp", "help"),
    "rewriter.app.cli.commands.trials": ("test", "verify", "lint", "coverage"),
}
"""The module in which each command is declared. A call imports only the module of its own command."""

_MODULE_OF = {command: module for module, commands in MODULES.items() for command in commands}

COMMANDS = tuple(command for commands in GROUPS.values() for command in commands)

EPILOG = """\
examples:
  rewriter check net.onnx                     print the defects and their rules
  rewriter fix net.onnx -o net.fixed.onnx     repair the model
  rewriter fix exported/ --out repaired/      repair the models of a folder
  rewriter plan net.onnx -o plan.toml         decide on each rewrite
  rewriter optimize net.onnx -o small.onnx    make the model smaller and faster
  rewriter audit net.onnx net.fixed.onnx      check a result against its record
  rewriter fix --show-settings                print the settings in effect

`rewriter help COMMAND` explains a command, a rule (MX001) or a message (E103).

exit codes:
  0  done, and no findings
  1  findings, or a model that is not repaired
  2  bad input, rule or option
  3  internal error
"""


class Parser(argparse.ArgumentParser):
    """A parser with help as wide as the terminal. It does not import `shutil`, which imports three compressors.

    Every declaration of an option makes a formatter, which needs the width.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **{"formatter_class": Lines, **named})

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2 and one line, without the usage, which is a page long."""
        self.exit(2, f"rewriter: error: {message}; `{self.prog} --help` explains\n")


class Lines(argparse.HelpFormatter):
    """Help in lines that fit the terminal, except examples. A list of commands has a heading for each group."""

    def __init__(self, prog: str, *args: Any, **named: Any) -> None:
        super().__init__(prog, *args, **{"width": terminal_width(sys.__stdout__) - 2, **named})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)

    def _iter_indented_subactions(self, action: argparse.Action) -> Generator[argparse.Action, None, None]:
        if not isinstance(action, argparse._SubParsersAction):
            yield from super()._iter_indented_subactions(action)
            return
        by_name = {command.dest: command for command in action._get_subactions()}
        for group, names in GROUPS.items():
            yield argparse.Action((), group, nargs=0, metavar=f"{group}:")
            self._indent()
            yield from (by_name[name] for name in names if name in by_name)
            self._dedent()

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        return "".join(super(Lines, self)._format_action(line) for line in self._iter_indented_subactions(action))


class Program(Parser):
    """The parser of a command line. An error is one line, with the nearest command or option."""

    commands: argparse._SubParsersAction[Any]

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Like `parse_args`, but an unknown option is compared with the options of its command."""
        name = next((word for word in words[:1] if not word.startswith("-")), None)
        if name is not None and name not in COMMANDS and (name.endswith(".onnx") or os.path.isdir(name)):
            where = f"--out {name.rstrip('/')}.fixed" if os.path.isdir(name) else f"-o {name.removesuffix('.onnx')}.fixed.onnx"
            self.reject(f"'{name}' is no command", "", (), f"to repair it: rewriter fix {name} {where}")
        if name is not None and name not in COMMANDS:
            self.reject(f"there is no command '{name}'", name, COMMANDS, "`rewriter --help` lists them")
        found, rest = self.parse_known_args(words)
        if rest:
            unknown = next((word for word in rest if word.startswith("-")), None)
            if unknown is None:
                self.reject(f"'{rest[0]}' is one argument too many", "", (), f"`rewriter {name} --help` lists them")
            options = self.commands.choices[name]._option_string_actions if name else self._option_string_actions
            where = f"`rewriter {name}`" if name else "`rewriter`"
            word = unknown.partition("=")[0]
            self.reject(f"{where} has no option '{word}'", word, options, f"`rewriter {name or ''} --help` lists them")
        return found

    def reject(self, message: str, word: str, known: Iterable[str], otherwise: str) -> NoReturn:
        """Ends the program with exit code 2."""
        from difflib import get_close_matches

        near = get_close_matches(word, list(known), 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else otherwise
        self.exit(2, f"rewriter: error: {message}; {hint}\n")


def make_parser(commands: Sequence[str] = COMMANDS) -> Program:
    """The parser of these commands; a command's function is `args.run`."""
    parser = Program(
        prog="rewriter",
        description="Repairs and optimizes ONNX models by declarative rewrite rules.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"rewriter {__version__}")
    parser.commands = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True, prog="rewriter", parser_class=Parser
    )
    for name in commands:
        import_module(_MODULE_OF[name])
        command = COMMANDS_BY_NAME[name]
        one = parser.commands.add_parser(
            name,
            help=command.help,
            description=command.description,
            epilog=command.epilog,
            allow_abbrev=command.is_abbreviated,
        )
        _declare(one, one, ("debug",))
        for argument, option in command.arguments:
            option.declare(one, argument)
        _declare(one, one, command.options)
        one.set_defaults(run=command.run, **command.defaults)
    return parser


def _declare(parser: Parser, place: Any, elements: Iterable[Element]) -> None:
    """Adds the entries of a command to a parser; `place` is the parser itself or a group of its options."""
    for element in elements:
        if isinstance(element, str):
            OPTIONS[element].declare(place, f"--{element}")
        elif isinstance(element, Group):
            _declare(parser, parser.add_argument_group(element.title), element.options)
        elif isinstance(element, OneOf):
            _declare(parser, place.add_mutually_exclusive_group(required=element.is_required), element.options)
        elif isinstance(element, Limits):
            _declare(parser, place, element.options())
            if element.whole is not None:
                parser.set_defaults(limited=element.whole)
        else:
            name, option = element
            option.declare(place, f"--{name}")
