"""Every option once, by its name, and the classes that declare a command.

A command in `commands` names the options that it has. `main` makes its parser of the names, `completion` the
words that a shell offers, and the pages of the commands are made of the parsers. To add an option, write a row of `OPTIONS`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from rewriter.app.cli.output import print_message
from rewriter.core.errors import RewriterError, install
from rewriter.core.record import record, replace

# The values of options.

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Switch(argparse.BooleanOptionalAction):
    """`--tidy` and `--no-tidy`: an option must be able to turn off a setting of a configuration."""

    def __init__(self, option_strings: Sequence[str], dest: str, **others: Any) -> None:
        described = others.get("help")
        super().__init__(option_strings, dest, **others)
        self.help = described  # Python 3.10 to 3.12 would add a default, which is not known here


def _number(kind: type[int] | type[float], is_valid: Callable[[float], bool], words: str) -> Callable[[str], Any]:
    """A reader of numbers of a kind. `words` describe valid numbers in the error message."""

    def read(text: str) -> Any:
        with suppress(ValueError):
            if is_valid(number := kind(text)):
                return number
        raise argparse.ArgumentTypeError(f"{text!r} is not {words}")

    return read


count = _number(int, lambda number: 1 <= number <= 1_000_000_000, "a positive number")
steps = _number(int, lambda number: 0 <= number <= 100, "a number of steps, 0 to 100")
seconds = _number(float, lambda number: 0 < number < 1e9, "a time in seconds")
tolerance = _number(float, lambda number: 0 <= number < float("inf"), "a tolerance, as 1e-4")


def file_ending_in(ending: str) -> Callable[[str], str]:
    """A reader of names of files that end so."""

    def read(text: str) -> str:
        if text.lower().endswith(ending):
            return text
        raise argparse.ArgumentTypeError(f"{text!r} does not end in {ending}")

    return read


def static_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """An input and its shape, as x:1,3,224,224; a name may have colons itself."""
    name, colon, dims = text.rpartition(":")
    lengths = dims.split(",") if dims else []
    if not (colon and name) or not all(part.isascii() and part.isdigit() and int(part) < 1 << 40 for part in lengths):
        raise argparse.ArgumentTypeError(f"{text!r} is not an input and its shape, such as x:1,3,224,224")
    return name, tuple(map(int, lengths))


def size(text: str) -> int:
    """Bytes, as 1000, 64K, 256M or 2G."""
    digits, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in "KMG" and text else (text, "")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 1 << 40:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 256M")
    return int(digits) * UNITS[unit]


def size_or_zero(text: str) -> int:
    """A text that `size` reads, or 0."""
    return 0 if text == "0" else size(text)


def size_text(text: str) -> str:
    """A text that `size` reads, returned as it was written."""
    size(text)
    return text


# The words of the table.


@record(frozen=True, slots=True)
class Option:
    """An option, or an argument. All fields but three are parameters of `add_argument`.

    Attributes:
        letter: its short form, as -o.
        needs: another option, without which it has no effect.
        shell_words: which words a shell offers for its value; a key of `completion.COMPLETERS`.
    """

    help: str
    metavar: str | None = None
    default: Any = None
    action: str | type[argparse.Action] | None = None
    type: Callable[[str], Any] | None = None
    choices: tuple[str, ...] | None = None
    nargs: str | None = None
    dest: str | None = None
    required: bool | None = None
    letter: str | None = None
    needs: str | None = None
    shell_words: str | None = None

    def declare(self, place: Any, *names: str) -> None:
        """Adds the option to a parser, or to a group of its options."""
        fields = ("help", "metavar", "default", "type", "choices", "action", "nargs", "dest", "required")
        values = {name: value for name in fields if (value := getattr(self, name)) is not None}
        action = place.add_argument(*([self.letter] if self.letter else []), *names, **values)
        action.needs, action.shell_words = self.needs, self.shell_words


Entry = tuple[str, Option]
"""An option with its name, if it differs from `OPTIONS` in a command, or an argument with its name."""


@record(frozen=True, slots=True)
class Group:
    """Options under a title of their own in the help."""

    title: str
    options: tuple[Element, ...]


@record(frozen=True, slots=True)
class OneOf:
    """Options that exclude each other: a call may have at most one, or needs exactly one."""

    options: tuple[Element, ...]
    is_required: bool = False


@record(frozen=True, slots=True)
class Limits:
    """`--time-limit` and `--memory-limit`.

    Attributes:
        what: the work that the limits are for.
        whole: default seconds, if the limits are for the whole command; `main` then applies them.
        default: of the time, in words, if it is not `whole` or 60 seconds, and more for large files.
    """

    what: str
    whole: float | None = None
    default: str = ""

    def options(self) -> tuple[Entry, ...]:
        default = self.default or f"{self.whole or 60:g}, more for large files"
        return with_words("time-limit", what=self.what, default=default), with_words("memory-limit", what=self.what)


Element = str | Entry | Group | OneOf | Limits
"""An entry in the declaration of a command: an option of `OPTIONS`, a changed option, or several options."""


@record(frozen=True, slots=True)
class Command:
    """The parts of a command, in the order of its help.

    Attributes:
        name: the word that is typed.
        help: its line in the list of commands.
        run: the function that is called with the options and returns the exit code.
        is_abbreviated: whether the beginning of an option's name will do.
        defaults: values without an option, by their names.
    """

    name: str
    help: str
    description: str
    epilog: str
    arguments: tuple[Entry, ...]
    options: tuple[Element, ...]
    run: Callable[[argparse.Namespace], int]
    is_abbreviated: bool
    defaults: dict[str, Any]


COMMANDS_BY_NAME: dict[str, Command] = {}
"""The commands of the modules of `rewriter.app.cli.commands` that are imported."""


def command(
    name: str,
    help: str,
    *arguments: Entry,
    epilog: str,
    options: tuple[Element, ...] = (),
    is_abbreviated: bool = True,
    **defaults: Any,
) -> Callable[[Callable[[argparse.Namespace], int]], Callable[[argparse.Namespace], int]]:
    """Declares the decorated function as a command, with examples. Its docstring is the description in the help."""

    def register(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
        description = " ".join((run.__doc__ or "").split())
        COMMANDS_BY_NAME[name] = Command(name, help, description, epilog, arguments, options, run, is_abbreviated, defaults)
        return run

    return register


def like(name: str, **changes: Any) -> Entry:
    """An option of the table with changed fields."""
    return name, replace(OPTIONS[name], **changes)


def with_words(name: str, **words: str) -> Entry:
    """An option of the table whose help has a placeholder for a word of the command."""
    return like(name, help=OPTIONS[name].help.format(**words))


def _flag(help: str) -> Option:
    return Option(help, action="store_true")


def _switch(help: str) -> Option:
    return Option(help, action=Switch)


def _several(metavar: str, help: str, default: list[str] | None = None, **others: Any) -> Option:
    return Option(help, metavar, default, action="append", **others)


SHIPPED = "opencv, openvino, tract, mnn, onnx2torch, qnn, rknn, tvm, iree, tinygrad, ncnn, onnx2tf, onnxruntime, ortweb"
"""The consumers that can be asked."""

# The table. An option that a configuration may set has no default here: `cli.settings` sets it.

OPTIONS: dict[str, Option] = {
    "debug": _flag("show the traceback of an internal error (or set REWRITER_DEBUG=1)"),
    # which rules
    "rules": _several(
        "PATH",
        "rule file or folder, or pack:NAME of an installed package, instead of the shipped rules; may be repeated, and "
        "`shipped` adds the shipped rules again. Without --select, all rules of a file run except guesses",
    ),
    "extend": _several("PATH", "additional rule file, folder or pack:NAME; may be repeated"),
    "target": _several("NAMES", "comma-separated consumers (tensorrt, ncnn, ...), or ALL: {what}", shell_words="targets"),
    "select": _several(
        "CODES",
        "comma-separated codes or beginnings of codes, ALL, NONE, OPTIMIZE or BASIC (default: DEFAULT, the rules that run by "
        "default; for `optimize`, the rules of --level)",
        shell_words="codes",
    ),
    "ignore": _several("CODES", "codes not to run; a longer code overrides a shorter one of --select", shell_words="codes"),
    "guess": _switch("also run repairs that the model alone cannot justify"),
    "set": _several("CODE.param=value", "set a parameter of a rule; may be repeated"),
    "level": Option(
        "basic: only rules that keep outputs within 2 units in the last place; all: also fusions that keep outputs within the "
        "bound that each rule states (default)",
        choices=("basic", "all"),
        default="all",
    ),
    # facts about the model
    "source": Option(
        "the framework's own file (MXNet's symbol.json, or a JSON or CSV table of attributes of named nodes), `none`, or "
        "`auto`: NAME-symbol.json or symbol.json next to the model (default)",
        "FILE",
    ),
    "constant-inputs": Option(
        "whether initializers that are also inputs are constants; auto: yes if all initializers are inputs (default)",
        choices=("auto", "yes", "no"),
    ),
    "static": _several(
        "INPUT:SHAPE",
        "{what}, for example x:1,3,224,224; may be repeated. Dimensions with the same name get the same length",
        [],
        type=static_shape,
    ),
    "inputs": Option("", "FILE"),
    "expect": Option(
        "an .npz file with inputs and the outputs of the framework; {dir} is the folder of each model, {name} its name. "
        "`check` then reports whether the model is correct, where it first differs, and which rules, guesses included, repair "
        "it",
        "FILE",
    ),
    # consumers
    "ask": _several(
        "NAMES",
        f"comma-separated consumers that load and run each model, if they are installed: {SHIPPED}; their outputs are "
        "compared with the outputs of ONNX Runtime",
        [],
    ),
    "consumer-env": _several(
        "DIR", "a virtual environment with the consumers of --ask, whose Python runs them; may be repeated", [], needs="ask"
    ),
    # configuration
    "config": Option(
        "configuration (default: rewriter.toml, or pyproject.toml with [tool.rewriter], here or in a folder above)", "FILE"
    ),
    "no-config": _flag("use no configuration file"),
    "show-settings": _flag("print each setting and its origin, and exit"),
    # limits, and the processes that do the work
    "jobs": Option("number of models processed at once, each in a process (default: 1)", "N", type=count),
    "scheduler": Option("process the models on a Dask cluster: dask://HOST:PORT, or local", "WHERE"),
    "time-limit": Option("seconds for {what} (default: {default})", "SECONDS", type=seconds),
    "memory-limit": Option(
        "memory for {what}, for example 512M or 8G (default: three quarters of the machine's memory, divided by --jobs)",
        "SIZE",
        type=size_text,
    ),
    "memory": Option(
        "memory for tensors that are compared together, for example 64M or 2G (default: 256M)",
        "SIZE",
        default=256 << 20,
        type=size,
    ),
    "sandbox": _flag(
        "work without network, and without files other than the models, their results and reports, and Python; needs "
        "bubblewrap (Linux)"
    ),
    "max-firings": Option("stop rewriting a model after N rewrites", "N", type=count),
    "timeout": Option("stop rewriting a model after so many seconds of processor time", "SECONDS", type=seconds),
    "runtime": Option("whether ONNX Runtime {what} (default)", default="auto", choices=("auto", "yes", "no")),
    # output
    "format": Option("format of the printed results (default: text)", choices=("text", "json"), default="text"),
    "report": _several(
        "FILE",
        "also write a report; the ending of FILE selects the format: .html, .md, .json, .sarif, .csv, .junit.xml or .xml. An "
        "existing file is replaced; may be repeated",
        [],
    ),
    "exit-zero": _flag("exit with 0 instead of 1 if there are findings or models still rejected"),
    "verbose": _flag("also list models without findings and changes"),
    "diff": _flag("also print the differences of the result, as `rewriter diff` does"),
    "profile": _flag("also print the time of each stage and each rule"),
    "nodes": _flag("also print a line for each node"),
    "all": _flag("also print the counts of rules without findings"),
    "pedantic": _flag("also report what cannot be decided"),
    "limit": Option("number of places shown in full (default: 10); JSON has all", "N", default=10, type=count),
    # where results go
    "output": Option("the result; - is standard output", "FILE", letter="-o"),
    "out": Option("folder for the results, which mirrors the searched folders; unchanged models are also written", "DIR"),
    "in-place": _flag("overwrite models that change"),
    "force": _flag("overwrite existing files"),
    "skip-existing": _flag("skip models whose result exists"),
    "resume": _flag("continue an interrupted run with the same --out"),
    "update": _flag(
        "process only models that changed since their result in --out was written, or whose source file, rules, options "
        "or version changed; remove results whose model is gone"
    ),
    "journal": Option(
        "journal file for --resume and --update (default: DIR.journal.jsonl next to --out)",
        "FILE",
    ),
    "dry-run": _flag("do everything except write the result"),
    # handling of results
    "keep-partial": _flag(
        "if the time limit ends the run, write the result of the rewrites so far, and record how many there were"
    ),
    "tidy": _switch("also remove unused nodes, initializers and imports"),
    "verify": _switch(
        "also run each model before and after, and roll back rewrites that change outputs that their rules promise to keep"
    ),
    "stamp": _switch("leave a record in models that change, for `history` and `audit` (default: yes)"),
    "record": Option(
        "full: the record also keeps the removed parts of the model, so that `undo` needs only the result",
        choices=("short", "full"),
        default="short",
    ),
    "original": Option("the model that was rewritten", "FILE"),
    # plans
    "interactive": _flag("show each rewrite and ask whether to apply it"),
    "fetch": _flag("fetch the model and the source file of the plan if they are URLs"),
    # parts of models
    "to": _several(
        "T,...",
        "the outputs of the part: tensors, nodes (all their outputs), patterns with *, or op:TYPE (default: the outputs of "
        "the model)",
        [],
    ),
    "from": _several(
        "T,...",
        "the inputs of the part; a node means its inputs (default: the inputs of the model, as far as needed)",
        dest="start",
    ),
    "auto-inputs": _flag("also turn all other tensors that the part needs into inputs"),
    "type": _several("NAME:TYPE", "the type of a new input or output, for example 'x:float[1,3,N]'; may be repeated", []),
    "at": _several("T,...", "one cut, after all these tensors or nodes; repeat for further cuts"),
    "rule": _several("CODES", "cut before each place where one of these rules would fire, in the order of computation"),
    "every": Option("cut after each N nodes, in the order of computation", "N", type=count),
    "max-size": Option("cut so that no part has more bytes of weights, for example 512M or 2G", "SIZE", type=size),
    "map": _several(
        "OUT=IN",
        "connect an output of a model to an input of a later one. If out=in is ambiguous, write a.out=b.in, with the names of "
        "the files; may be repeated",
        [],
    ),
    "beside": _flag("connect only what --map names"),
    "share": _several("NAME,...", "make one input of all inputs with the same name; patterns with *", []),
    "prefix": Option("prefixes for the names of each model; one may be empty", "A,B,..."),
    "outputs": _several("T,...", "the outputs that remain, in their order (default: all outputs that are not mapped)"),
    # versions, types and forms of models
    "with-children": _flag("--drop also removes everything that is computed from a node"),
    "ir": Option("the IR version", "K", type=count),
    "restamp": _flag("change only the version; reject the model if a node must be converted"),
    "external": _flag("write the weights to a file next to the model"),
    "inline": _flag("write the weights into the model"),
    "location": Option("the data file, relative to the result (default: FILE.data)", "NAME", needs="external"),
    "threshold": Option(
        "size of the smallest weight that goes there (default: 1K)", "SIZE", type=size_or_zero, needs="external"
    ),
    "dtype": Option("the type", choices=("float16", "bfloat16", "float32", "double")),
    "layout": Option("the layout of inputs and outputs", choices=("nhwc", "nchw")),
    "keep": _several(
        "NODES",
        "nodes that compute as before: names, patterns, op:TYPE, or A..B for all nodes between two; may be repeated",
        [],
        needs="dtype",
    ),
    "io": Option(
        "keep or convert the types of inputs and outputs (default: keep)",
        choices=("keep", "convert"),
        default="keep",
        needs="dtype",
    ),
    "ports": _several(
        "NAMES",
        "with --layout: these inputs and outputs, of three to five dimensions (default: all of four); may be repeated",
        [],
        needs="layout",
    ),
    "as": Option(
        "the form of the result, if the ending of the file does not select it (default: onnxtxt)",
        choices=("onnxtxt", "json", "textproto", "onnx"),
        dest="form",
    ),
    # output about models
    "modules": _flag("also print nodes, parameters, multiplications and bytes, in total and by module"),
    "stats": _flag("like --modules, and also print statistics of the weights; with --nodes also by node"),
    "depth": Option("depth of the listed modules (default: 2)", "N", default=2, type=count),
    "open": _flag("open the page in the browser"),
    "firing": Option("draw the N-th firing", "N", type=count),
    "around": Option("draw the nodes around this one, by its name or the name of an output", "NODE", shell_words="nodes"),
    "hops": Option("number of steps that --around goes (default: 2)", "N", type=count, needs="around"),
    "layers": _flag("list every tensor that has a counterpart"),
    "rtol": Option("relative tolerance (default: 1e-4; with --ask, what check --ask allows)", "X", type=tolerance),
    "atol": Option("absolute tolerance (default: 1e-6)", "X", default=1e-6, type=tolerance),
    "dump": _several("T,...", "also return these tensors, all outputs of nodes, or op:TYPE for all nodes of an operator", []),
    "runs": Option("number of runs of each model (default: as many as fit in --seconds)", "N", type=count),
    "seconds": Option("seconds for all timed runs together (default: 5)", "S", default=5.0, type=seconds),
    "warmup": Option("number of warm-up runs of each model (default: 5)", "N", default=5, type=count),
    "threads": Option("number of threads for one model (default: the runtime decides)", "N", default=0, type=count),
    "as-it-is": _flag("turn off the runtime's optimizations"),
    # rules
    "symptom": Option(
        "list rules that repair a model that a tool rejects with this message; names and numbers in the message are ignored",
        "TEXT",
    ),
    "exporter": Option("list rules for models of this exporter; `any`: rules for models of all exporters", "NAME"),
    "packs": _flag("list the installed rule packs instead, for --rules pack:NAME"),
    "bless": _flag("write the result of the rule into tests that expect something else, and show the difference first"),
    "watch": _flag("run the tests again whenever a rule file changes"),
    "check": _flag("only list which files would change; exit code 1 if any"),
    "samples": Option("number of random models for each rule (default: 200)", "N", type=count),
    "seed": Option("random seed (default: 0)", "S", type=int),
    "recorded": Option("folder of recorded exports (default: tests/models next to the rules, if it exists)", "FOLDER"),
    "update-lock": _flag("write the verdicts to the lock file next to the rules"),
    "locked": _flag("run nothing; a rule that changed since it was verified is a finding"),
    "no-lock": _flag("verify every rule, and ignore the lock file"),
    "stdio": _flag("use standard input and output, which is always the case; editors pass this option"),
}

_EDITS = (
    ("rename", "OLD=NEW", "rename a tensor or node; /PATTERN/REPLACEMENT/ renames all that match a regular expression"),
    ("add-output", "T,...", "make tensors outputs: named tensors, or all that named nodes or an operator (op:Conv) compute"),
    ("type", "NAME:TYPE", "the type of a new output that the model does not declare, for example 'x:float[1,3,N]'"),
    ("drop-output", "T,...", "remove outputs, and the nodes that are then unused"),
    ("drop", "NODE,...", "remove nodes; their readers read the first operand that is no constant"),
    (
        "insert-after",
        "T=OP",
        "insert a node after a tensor, for example 'x=Mul(_, 0.5)', 'x=Sub(_, @mean.npy)' or 'y=Softmax<axis=1>'",
    ),
    ("replace", "OLD=NEW", "change the operator of all nodes of a type, or of named nodes"),
    ("set", "NODE.attr=VALUE", "set an attribute; none removes it"),
    ("shape", "INPUT:DIMS", "change the shape of an input, for example x:N,3,H,W, and adapt nodes that contain the old one"),
    ("batch", "DIM", "set the batch, which is the first dimension of the first input, in all inputs that have it"),
    ("dtype", "NAME=TYPE", "change the element type of an input or output; a Cast is inserted"),
    ("constant", "INPUT=VALUE", "turn an input into an initializer: @FILE.npy, @FILE.npz, a number or a list"),
    ("free", "WEIGHT", "turn an initializer into an input"),
    ("set-weight", "W=VALUE", "set the values of an initializer: @FILE.npy, or @FILE.npz by its name"),
    ("strip", "WORDS", "remove doc, metadata, value_info, names (of nodes): a list of these words"),
    ("doc", "TEXT", "set the doc string of the model"),
    ("meta", "KEY=VALUE", "set an entry of the model's metadata; an empty value removes it"),
)
EDITS: dict[str, Option] = {
    name: _several(metavar, help, dest="edits", type=lambda value, name=name: (name, value)) for name, metavar, help in _EDITS
}
"""The options of `edit` that are edits: pairs of name and value in one list, in the order in which they are typed."""

# Groups of options that several commands share.

MODEL: Entry = ("model", Option("the model", "MODEL"))
BEFORE: Entry = ("before", Option("a model", "A"))
AFTER: Entry = ("after", Option("the model it is compared with", "B"))
PATHS: Entry = (
    "paths",
    Option("model, folder that is searched for *.onnx, URL, or - (standard input)", "PATH", nargs="*"),
)
RULES: Entry = ("rules", Option("rule file or folder (default: the shipped rules)", "RULES", nargs="*"))

RULE_PATHS: tuple[Element, ...] = ("rules", "extend")
WHICH_RULES = Group(
    "which rules",
    (
        *RULE_PATHS,
        with_words("target", what="also run the rules that adapt models to them"),
        "select",
        "ignore",
        "guess",
        "set",
    ),
)
KNOWN_OF_MODEL = Group("facts about the model", ("source", "constant-inputs"))
CONFIGURATION = Group("configuration", (OneOf(("config", "no-config")), "show-settings"))
RULES_AT_WORK: tuple[Element, ...] = (WHICH_RULES, KNOWN_OF_MODEL, CONFIGURATION)
SELECTION: tuple[Element, ...] = (
    *RULES_AT_WORK,
    Group("limits", ("jobs", "scheduler", Limits("one model"), "sandbox", "max-firings", "timeout")),
    Group(
        "output",
        (
            like(
                "format",
                help="format of the printed results: text (default), JSON, or annotations of a GitHub workflow",
                choices=("text", "json", "github"),
            ),
            "report",
            "exit-zero",
            "verbose",
        ),
    ),
)
"""The options that decide what `fix`, `optimize` and `check` do with models."""

RESULTS: tuple[Element, ...] = (
    Group(
        "results",
        (OneOf((like("output", help="the result of a single model; - is standard output"), "out", "in-place")),),
    ),
    OneOf(("force", "skip-existing", "resume", "update")),
    "journal",
    "keep-partial",
    "tidy",
    "verify",
    with_words(
        "runtime",
        what="loads the models, and lists those that it still rejects. auto: if it is installed, up to 256 MiB. no: results "
        "with rewrites are checked with it all the same",
    ),
    like(
        "inputs",
        help="inputs for --verify (.npz, by name; default: random inputs and edge values). If the file also holds outputs, by "
        "name or as out_0, out_1..., the result must return them",
        needs="verify",
    ),
    "stamp",
    "record",
    "diff",
    "profile",
)
"""The options for the results of `fix` and `optimize`."""

LONG = 600.0
"""Default seconds of commands that do one thing."""


def result(output: str = "", *, stamp: bool = True, diff: bool = True) -> tuple[Element, ...]:
    """The options for the result of a command that cuts, joins or edits models; `diff` if it is one model."""
    options: tuple[Element, ...] = (
        like("output", help=output) if output else "output",
        "force",
        "dry-run",
        *(("diff",) if diff else ()),
        with_words(
            "runtime",
            what="loads the result, and runs small models before and after; yes: also models up to 1 GiB; auto: if it is "
            "installed",
        ),
        like(
            "stamp",
            default=stamp,
            help=f"leave a record of the command in the result, for `history` (default: {'yes' if stamp else 'no'})",
        ),
        Limits("the whole command", default=f"{LONG:g}"),
    )
    return Group("the result", options), "format"


# Settings that several options decide together.


def limits_of(args: argparse.Namespace, seconds: float | None = None) -> dict[str, Any]:
    """The values of `--time-limit` and `--memory-limit` by the names of their fields in `Work`; empty without these options.

    `seconds` is the default of the command, if it has its own.
    """
    if "time_limit" not in args:
        return {}
    from rewriter.core.isolation.budget import SECONDS, share_of_machine

    most, processes = args.memory_limit, getattr(args, "jobs", 1)
    return {
        "seconds": args.time_limit or seconds or getattr(args, "limited", SECONDS),
        "memory": share_of_machine(processes) if most is None else size(most),
    }


def runtime_choice(choice: str) -> str:
    """Whether ONNX Runtime is used, by `--runtime` and whether it is installed: "no", "auto" or "yes".

    Raises:
        RewriterError: `--runtime yes` requires it, and it is not installed.
    """
    from rewriter.trust.proof.judges import installed

    if choice == "yes" and not installed():
        raise RewriterError(f"--runtime needs ONNX Runtime; install it with: {install('verify')}")
    if choice == "auto" and not installed():
        missing = "ONNX Runtime is not installed, so results were not tested with it"
        print_message(f"rewriter: note: {missing}. To enable: {install('verify')}")
    return choice if installed() else "no"
