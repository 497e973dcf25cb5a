"""Commands that list, begin and format rules, and those that explain a rule, a message or a command."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.app.batch.jobs import opened
from rewriter.app.cli.main import COMMANDS, make_parser
from rewriter.app.cli.options import (
    CONFIGURATION,
    RULE_PATHS,
    Limits,
    Option,
    command,
    like,
    runtime_choice,
    steps,
    with_words,
)
from rewriter.app.cli.output import answer, answer_json, print_line, print_message, print_page, progress, style_of
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError, counted, install

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rewriter.core.language.rules import Rule

# Lists and explanations: rules, packs of rules, messages, commands.


@command(
    "rules",
    "list the rules",
    epilog='example: rewriter rules --symptom "First input does not have rank 2"',
    options=(
        "symptom",
        "exporter",
        with_words("target", what="rules for these, also rules that run only if you select them"),
        "packs",
        *RULE_PATHS,
        CONFIGURATION,
        Limits("the command", 600),
        "format",
    ),
    target=[],  # here it selects the listed rules, which a configuration must not decide
)
def rules(args: argparse.Namespace) -> int:
    """Lists rules by exporter: code and title. A mark after the code shows that a rule does not run by default. With --symptom:
    lists the rules that repair a model that a tool rejects with this message, best first. If no rule has this
    symptom, lists the closest rules, and the exit code is 1.
    """
    from rewriter.app.cli.settings import load, read_rules, target_names
    from rewriter.app.report.rule_lines import HANG, MARKS, rule_object, rule_table
    from rewriter.core.language.rules import targets_meant
    from rewriter.core.record import as_dict
    from rewriter.rule_tools.symptoms import find_answers
    from rewriter.trust.consumers.target_recipes import advice_on

    if args.packs:
        return _print_packs(args)
    # A digest is of a compiled rule, as in the lock file and in reports.
    known = sorted(load(args.rules), key=lambda rule: rule.code) if args.format == "json" else read_rules(args.rules)
    listed = _of_exporter(known, args.exporter)
    targets = targets_meant(target_names(args), listed)  # also rules that run only when selected
    listed = [rule for rule in listed if not targets or not targets.isdisjoint(rule.targets)]
    answers = [] if args.symptom is None else find_answers(listed, args.symptom)
    advice = [] if args.symptom is None else advice_on(args.symptom)
    if advice:
        answers = [answer for answer in answers if answer.sure]
    is_sure = args.symptom is None or bool(advice) or any(answer.sure for answer in answers)
    if args.format == "json":
        found = [{**rule_object(a.rule), "answers": a.symptom, "score": a.score, "sure": a.sure} for a in answers]
        objects = found if args.symptom is not None else [rule_object(rule) for rule in listed]
        answer_json(args, {"rules": objects} if args.symptom is None else {"rules": objects, "advice": as_dict(advice)})
        return 0 if is_sure else 1
    for one in advice:
        print_line(f"{one.consumer}: {one.advice}")
        print_line(f"    {one.thread}")
    if not is_sure:
        print_message("no rule has this symptom" + ("; the closest ones:" if answers else ""))
    if args.symptom is None or answers:
        rows = listed if args.symptom is None else [answer.rule for answer in answers]
        for line in rule_table(rows, style_of(sys.stdout), is_ranked=args.symptom is not None):
            print_line(line, hang=HANG)
        print_message(MARKS)
    return 0 if is_sure else 1


def _print_packs(args: argparse.Namespace) -> int:
    """Prints the packs, one a line. No code of their packages is run."""
    from rewriter.app.report.printout import Printout
    from rewriter.core.language.rule_files import find_rule_files
    from rewriter.rule_tools.load_rules import packs

    found = [(pack, len(find_rule_files([pack.folder]))) for pack in packs()]
    listed = [{"name": p.name, "from": p.distribution, "folder": str(p.folder), "files": files} for p, files in found]
    lines = [f"pack:{pack.name}  {counted(files, 'rule file')}, {pack.distribution}, {pack.folder}" for pack, files in found]
    shown = Printout(lambda: {"packs": listed}, lambda style: map(clean, lines))
    return answer(args, shown, totals="" if found else "no installed package has rules")


def _of_exporter(rules: Sequence[Rule], name: str | None) -> Sequence[Rule]:
    """The rules for one exporter; None: all of them.

    Raises:
        RewriterError: no rule is for it.
    """
    from rewriter.core.language.diagnostics import suggest

    if name is None:
        return rules
    wanted = name.lower()
    found = [rule for rule in rules if (wanted in rule.exporters if wanted != "any" else not rule.exporters)]
    if not found:
        known = sorted({exporter for rule in rules for exporter in rule.exporters})
        near = suggest(wanted, known)
        hint = f"did you mean {near}?" if near else f"there are rules for {', '.join(known) or 'any'}"
        raise RewriterError(f"no rule is for exporter {name!r}; {hint}")
    return found


@command(
    "rule",
    "show one rule",
    ("code", Option("code of the rule", "CODE", shell_words="one_code")),
    epilog="example: rewriter rule MX001",
    options=(*RULE_PATHS, CONFIGURATION, Limits("the command", 600), "format"),
)
def rule(args: argparse.Namespace) -> int:
    """Shows one rule: its purpose, the models that it is for, its parameters, upstream issues and text."""
    from rewriter.app.chosen_rules import find_rule
    from rewriter.app.cli.settings import read_rules
    from rewriter.app.report.printout import Printout
    from rewriter.app.report.rule_lines import rule_lines, rule_object, text_lines

    found = find_rule(args.code, read_rules(args.rules))
    shown = Printout(lambda: rule_object(found), partial(rule_lines, found), table=lambda style: text_lines(found))
    return answer(args, shown)


@command(
    "explain",
    "explain a message of the rule compiler",
    ("code", Option("E103, W301, ...; `list` prints all of them", "CODE", shell_words="messages")),
    epilog="example: rewriter explain E103",
    options=("format",),
)
def explain(args: argparse.Namespace) -> int:
    """Explains a message of the rule compiler: its meaning, a rule that causes it, and a rule that does not."""
    from rewriter.rule_tools import message_pages

    known = message_pages.message_pages()
    texts = dict.fromkeys(known, "") if args.code == "list" else {args.code.upper(): message_pages.explain(args.code)}
    if args.format == "json":
        pages = [{"code": code, "title": known[code].title, **({"text": text} if text else {})} for code, text in texts.items()]
        answer_json(args, {"pages": pages})
    else:
        for code, text in texts.items():
            print_page(text) if text else print_line(f"{code}  {known[code].title}", hang=6)
    return 0


@command(
    "help",
    "explain a command, a rule or a message",
    ("word", Option("a command, a rule's code, or a message's code", "WORD", nargs="?", shell_words="words")),
    epilog="examples:\n  rewriter help fix\n  rewriter help MX001",
)
def help(args: argparse.Namespace) -> int:
    """Explains a command (fix), a rule (MX001) or a message of the rule compiler (E103)."""
    from rewriter.rule_tools import message_pages

    if args.word is None:
        make_parser().print_help()
    elif args.word in COMMANDS:
        make_parser([args.word]).commands.choices[args.word].print_help()
    elif args.word.upper() in message_pages.message_pages():
        print_page(message_pages.explain(args.word))
    else:
        _print_rule(args.word)
    return 0


def _print_rule(word: str) -> None:
    from rewriter.app.cli.settings import read_rules
    from rewriter.app.report.rule_lines import rule_lines
    from rewriter.core.language.diagnostics import suggest

    known = {rule.code: rule for rule in read_rules(None)}
    found = known.get(word.upper())
    if found is None:
        near = suggest(word, COMMANDS) or suggest(word.upper(), known)
        hint = f"did you mean {near}?" if near else "`rewriter help` lists the commands"
        raise RewriterError(f"{word!r} is no command, rule or message; {hint}")
    for line in rule_lines(found, style_of(sys.stdout)):
        print_line(line)


# New rules and packs.


@command(
    "new",
    "start a rule from a part of a model, or from a model and its repair",
    ("code", Option("of the new rule: capital letters and a number, such as MY001", "CODE")),
    epilog="examples:\n"
    "  rewriter new MY001 --from net.onnx --around /MaxPool -o my_rules/MY001_pool.rules\n"
    "  rewriter new MY001 --from before.onnx --to after.onnx -o my_rules/MY001_pool.rules\n"
    "exit code: 1 if the rules do not produce the repair",
    options=(
        ("from", Option("the model", "MODEL", dest="model", required=True)),
        ("to", Option("its repair, with the same inputs and outputs", "MODEL", dest="repair")),
        like("around", help="the node: its name, the name of one of its outputs, or op:TYPE for the first node of an operator"),
        like("depth", type=steps, default=1, help="include nodes that are up to so many steps away (default: 1)"),
        like("output", help="the rule file (default: it is printed)"),
        like("force", help="overwrite an existing file"),
        *RULE_PATHS,
        with_words("runtime", what="loads and runs the models; auto: if it is installed"),
        Limits("the command", 600),
    ),
)
def new(args: argparse.Namespace) -> int:
    """Writes a rule file that compiles, with a header and tests. With --around the pattern has the nodes around one node, and
    comments mark the parts that you fill in. With --to the pattern and the rewrite are the differences between a model and its
    hand-made repair. The rule is run on the model, and its result is compared with the repair. Comments mark the guesses. If
    one rule is not enough, the other rules get the codes after CODE.
    """
    from rewriter.app.cli.settings import load
    from rewriter.core.onnxfile.files import check_target, write_file

    if (args.around is None) == (args.repair is None):
        raise RewriterError("name either a node with --around, or the repair of the model with --to")
    target = None if args.output is None else Path(args.output)
    if target is not None:
        check_target(target, args.force)
    source, code = opened(args.model), args.code.upper()
    runtime, rules = runtime_choice(args.runtime) != "no", load(args.rules)
    if args.repair is None:
        from rewriter.workbench.authoring.new_rule import new_rule

        found = new_rule(source.read(), code, args.around, depth=args.depth, rules=rules, origin=source.name, runtime=runtime)
    else:
        from rewriter.workbench.authoring.rule_of_pair import rules_of_pair

        repair = opened(args.repair)
        models, origins = (source.read(), repair.read()), (source.name, repair.name)
        found = rules_of_pair(*models, code, depth=args.depth, rules=rules, origins=origins, runtime=runtime)
    if target is None:
        print(found.text, end="")
    else:
        write_file(target, found.text.encode(), args.force)
        print_line(f"{clean(str(target))}: {code}")
    for line in (*found.outcome, *(f"not reached: {line}" for line in found.missing)):
        print_message(clean(line))
    if target is not None:
        print_message("fill in the places marked FILL IN, then run: rewriter test " + clean(str(target)))
    return 1 if found.missing else 0


@command(
    "new-pack",
    "start a package of rules",
    ("name", Option("small letters, digits and hyphens; pip knows it as NAME-rules", "NAME")),
    epilog="example: rewriter new-pack my-company",
    options=(like("output", metavar="FOLDER", help="the folder to make (default: NAME-rules)"),),
)
def new_pack(args: argparse.Namespace) -> int:
    """Writes a folder with a package that you install with pip. Its rules then have the name pack:NAME. The folder has an
    example rule with tests and its verdict of `verify`, a test of the package, and a workflow for CI.
    """
    from shlex import quote

    from rewriter.app.cli.commands.trials import verify
    from rewriter.trust.proof.judges import installed
    from rewriter.workbench.authoring.new_pack import named, write_pack

    pack = named(args.name)
    folder = Path(args.output or pack.distribution)
    for path in write_pack(pack, folder):
        print_line(clean(str(path)))
    place = str(folder / pack.rules)
    if installed():
        verify(make_parser(["verify"]).read(["verify", place, "--update-lock", "--samples", "60"]))
    else:
        print_message(
            f"the rules are not verified without ONNX Runtime; with it: rewriter verify {quote(clean(place))} --update-lock"
        )
    print_message(
        f"install it with: pip install -e {quote(clean(str(folder)))}; then: rewriter fix MODEL --extend pack:{pack.name}"
    )
    return 0


# Rules as text, and in editors.


@command(
    "fmt",
    "format rule files",
    ("paths", Option("rule file, or folder that is searched for *.rules", "PATH", nargs="+")),
    epilog="example: rewriter fmt --check my_rules/",
    options=("check", Limits("the command", 600)),
)
def fmt(args: argparse.Namespace) -> int:
    """Formats rule files in place and keeps comments. A file that does not parse is reported and not changed."""
    from rewriter.core.language.rule_files import find_rule_files

    changed = failed = 0
    files = find_rule_files(args.paths)
    with progress(len(files), "files") as display:
        for file in files:
            error = ""
            try:
                if _formatted(file, is_check=args.check):
                    changed += 1
                    display.show(f"{'would format' if args.check else 'formatted'} {clean(file)}")
            except RewriterError as failure:
                error = str(failure)
                failed += 1
                print_message(error if file in error else f"{clean(file)}:\n{error}")
            display.advance(failed=bool(error))
    print_message(f"{counted(len(files), 'file')}: {changed} {'to format' if args.check else 'formatted'}, {failed} failed")
    if failed:
        return 2
    return 1 if args.check and changed else 0


def _formatted(file: str, *, is_check: bool) -> bool:
    """Formats a file, or only checks it. Returns whether its layout differs. Raises RewriterError."""
    from rewriter.core.language.rule_files import read_rule_file
    from rewriter.core.onnxfile.files import write_file
    from rewriter.rule_tools.format import format_text

    text = read_rule_file(file)
    formatted = format_text(text, file)
    if formatted != text and not is_check:
        write_file(Path(file), formatted.encode(), True)
    return formatted != text


@command(
    "lsp",
    "run the language server for editors of rule files",
    epilog="example: rewriter lsp --stdio",
    options=("stdio",),
)
def lsp(args: argparse.Namespace) -> int:
    """Runs a server of the Language Server Protocol on standard input and output: diagnostics while you type, hover,
    completion, definitions, formatting, and lenses that run tests and verify rules. Editors start it by themselves. Needs
    onnx-rewriter[editor].
    """
    from importlib.util import find_spec

    if find_spec("pygls") is None:
        raise RewriterError(f"the language server needs pygls; install it with: {install('editor')}")
    from rewriter.app.editor.server import RulesServer

    RulesServer().server.start_io()
    return 0
