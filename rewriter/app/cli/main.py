"""The entry point: reads the command line by the declarations of commands, runs one command, and turns every ending into an
exit code. Near misses of names and options are named.

    0  done; nothing found
    1  findings (check, test, fmt --check), or something could not be repaired
    2  bad input, rule or option
    3  internal error

Nothing heavy is imported here or by the modules that declare options: `rewriter --help` must not wait for onnx.
"""

from __future__ import annotations

import argparse
import atexit
import errno
import gc
import os
import signal
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from typing import Any, NoReturn

from rewriter import __version__
from rewriter.app.cli.options import COMMANDS_BY_NAME, OPTIONS, Element, Group, Limits, OneOf
from rewriter.app.cli.output import print_message, terminal_width, wants_color
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError, reason

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
            from shlex import quote

            folder, file = f"{name.rstrip('/')}.fixed", f"{name.removesuffix('.onnx')}.fixed.onnx"
            where = f"--out {quote(folder)}" if os.path.isdir(name) else f"-o {quote(file)}"
            self.reject(f"'{name}' is no command", "", (), f"to repair it: rewriter fix {quote(name)} {where}")
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
        one.set_defaults(run=command.run, known_options=one._actions, **command.defaults)
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


OK, FINDINGS, BAD_INPUT, INTERNAL = 0, 1, 2, 3
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO)
"""Errors of a write to stdout: the disk is full or broken."""
OBJECTS = 50_000
"""New objects after which the garbage collector runs. With Python's 700, start-up walks a hundred times over modules, which are
never freed.
"""


def main(argv: Sequence[str] | None = None, staging: str | None = None) -> int:
    """Runs one command and returns its exit code. It raises nothing; only `--help` and `--version` exit by themselves.

    `staging` is the folder in which the command leaves its files if it runs in the sandbox.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name may hold what the terminal's encoding cannot show
    words = sys.argv[1:] if argv is None else argv
    if not words:
        make_parser().print_help(sys.stderr)
        return BAD_INPUT
    args = make_parser(words[:1] if words[0] in COMMANDS else COMMANDS).read(words)
    try:
        with _within_limits(args):
            code = OK if _settled(args) else _run(args, words, staging)
        sys.stdout.flush()
        return code
    except RewriterError as error:
        print_message(_shown(error))
        return BAD_INPUT
    except MemoryError:
        print_message("rewriter: error: out of memory: the command needs more than three quarters of the machine's memory")
        return BAD_INPUT
    except KeyboardInterrupt as error:
        print("terminated" if isinstance(error, _Terminated) else "interrupted", file=sys.stderr)
        return TERMINATED if isinstance(error, _Terminated) else INTERRUPTED
    except BrokenPipeError:  # the reader (`| head`) has gone
        _drop_output()
        return BROKEN_PIPE
    except OSError as error:
        if error.errno not in _FULL:
            return _internal(error, debug=args.debug or bool(os.environ.get("REWRITER_DEBUG")))
        _drop_output()
        print_message(f"rewriter: error: the results cannot be printed: {reason(error)}")
        return BAD_INPUT
    except Exception as error:
        return _internal(error, debug=args.debug or bool(os.environ.get("REWRITER_DEBUG")))


def _run(args: argparse.Namespace, words: Sequence[str], staging: str | None) -> int:
    """Runs the command; with `--sandbox`, in another process.

    Raises:
        RewriterError: an option has no effect without another one.
    """
    for option in args.known_options:
        needed = getattr(option, "needs", None)
        if needed and getattr(args, option.dest) != option.default and not getattr(args, needed):
            name = option.option_strings[-1]
            raise RewriterError(f"{name} has no effect without --{needed}; pass both, or leave out {name}")
    args.staging = staging
    if staging is None and getattr(args, "sandbox", False):
        from rewriter.app.cli.sandbox import run

        return run(args, words)
    return int(args.run(args))


def _within_limits(args: argparse.Namespace) -> AbstractContextManager[None]:
    """The limits of a command that reads models one at a time: a model of a few bytes may need unlimited time and memory."""
    if "limited" not in args:
        return nullcontext()
    from rewriter.app.cli.options import limits_of
    from rewriter.core.isolation.budget import allowed, within_limits

    limits = limits_of(args)
    arguments = [getattr(args, name, None) for name in ("model", "other", "before", "after", "input", "output", "plan")]
    files = [one for one in arguments if isinstance(one, str)]
    seconds = limits["seconds"] + sum(allowed(one, 0.0) for one in files)
    return within_limits(seconds, limits["memory"], files[0] if files else "")


def _settled(args: argparse.Namespace) -> bool:
    """Applies the configuration, for commands that have one. Returns whether the call only shows the settings."""
    shown = False
    if "no_config" in args:
        from rewriter.app.cli.settings import settle

        shown = settle(args)
    origins = getattr(args, "origins", {})
    typed = [one for name in ("rules", "extend") if origins.get(name, "").startswith("--") for one in getattr(args, name)]
    args.named_files = [one for one in typed if one.endswith(".rules") and os.path.isfile(one)]
    if getattr(args, "extend", None):
        args.rules = [*(args.rules or ["shipped"]), *args.extend]
    return shown


def entry(staging: str | None = None) -> NoReturn:
    """The console script: a process that runs one command, and starts and ends quickly. `staging` is passed to `main`."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy takes 70 ms to start more, and no code here uses them
    gc.set_threshold(OBJECTS)
    if "_ARGCOMPLETE" in os.environ:
        from rewriter.app.cli.completion import complete

        parser = make_parser()
        complete(parser, parser.commands.choices.values())
    _keep_stdout()
    _end_cleanly()
    code = main(staging=staging)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)  # Python would clear all modules first: 25 ms if ONNX is imported


class _Terminated(KeyboardInterrupt):
    """SIGTERM came. Its default action would leave temporary files behind."""


def _end_cleanly() -> None:
    """Makes SIGTERM end the command as Ctrl-C does."""
    if hasattr(signal, "SIGTERM") and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
    raise _Terminated


def _keep_stdout() -> None:
    """Keeps standard output for results: output of libraries, such as warnings of ONNX, goes to stderr."""
    with suppress(OSError, ValueError, AttributeError):
        if sys.stdout.fileno() == 1:
            kept = os.dup(1)
            os.dup2(2, 1)
            sys.stdout = os.fdopen(kept, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def _shown(error: RewriterError) -> str:
    """One line; for errors in rule files, the source lines that the compiler marks."""
    render = getattr(error, "render", None)
    if render is not None:
        return str(render(wants_color(sys.stderr)))
    from rewriter.app.batch.work import with_names

    return f"rewriter: error: {clean(with_names(str(error)))}"


def _drop_output() -> None:
    """Drops the buffer of stdout, so that it does not raise again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _internal(error: Exception, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    kind = type(error).__name__
    hint = "" if debug else " (--debug shows the traceback)"
    print_message(f"rewriter: internal error: {kind}: {clean(str(error))}; please report it{hint}")
    return INTERNAL
