"""The table of options: what commands, completion and configurations read of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rewriter.app.cli.completion import COMPLETERS
from rewriter.app.cli.main import COMMANDS, GROUPS, MODULES, make_parser
from rewriter.app.cli.options import COMMANDS_BY_NAME, EDITS, OPTIONS, Element, Group, Limits, OneOf, Option
from rewriter.app.configuration import SETTINGS
from tests.cli.call import Call

make_parser()  # imports the modules of all commands


def named(elements: Iterable[Element]) -> Iterator[tuple[str, Option]]:
    """The options of a declaration, one by one."""
    for element in elements:
        if isinstance(element, str):
            yield element, OPTIONS[element]
        elif isinstance(element, (Group, OneOf)):
            yield from named(element.options)
        else:
            yield from named(element.options()) if isinstance(element, Limits) else [element]


DECLARED = [(name, command, pair) for name, command in COMMANDS_BY_NAME.items() for pair in named(command.options)]


def test_every_command_is_declared_where_it_is_looked_for() -> None:
    modules = {command: module for module, commands in MODULES.items() for command in commands}
    assert list(COMMANDS) == [command for commands in GROUPS.values() for command in commands]
    assert {name: command.run.__module__ for name, command in COMMANDS_BY_NAME.items()} == modules
    assert set(modules) == set(COMMANDS)


def test_every_option_of_the_table_is_an_option_of_a_command() -> None:
    used = {option for _, _, (option, _) in DECLARED}
    assert set(OPTIONS) - used == {"debug"}  # which all commands have
    assert used - set(OPTIONS) <= set(EDITS)


def test_no_command_has_an_option_twice() -> None:
    pairs = [(name, option) for name, _, (option, _) in DECLARED]
    assert len(pairs) == len(set(pairs))


def test_no_help_has_a_word_left_out() -> None:
    left = [(name, option) for name, _, (option, one) in DECLARED if "{what}" in one.help or "{default}" in one.help]
    assert left == []
    assert all(one.help for _, _, (_, one) in DECLARED)


def test_an_option_without_effect_is_an_error(call: Call) -> None:
    needy = {(name, option, one.needs) for name, _, (option, one) in DECLARED if one.needs}
    assert needy >= {("fix", "inputs", "verify"), ("convert", "ports", "layout"), ("picture", "hops", "around")}
    for name, _, needed in needy:
        assert needed in {option for command, _, (option, _) in DECLARED if command == name}
    for words in (
        ("--dtype", "float16", "--ports", "x"),
        ("--layout", "nhwc", "--io", "convert"),
        ("--layout", "nhwc", "--keep", "y"),
    ):
        done = call("convert", "net.onnx", *words, "-o", "out.onnx")
        assert done.code == 2 and f"{words[2]} has no effect without --" in done.err


def test_an_option_that_a_configuration_turns_on_need_not_be_typed(call: Call, tmp_path: Path) -> None:
    (settings := tmp_path / "rewriter.toml").write_text("verify = true\n")
    words = "fix", tmp_path / "net.onnx", "--inputs", tmp_path / "in.npz"
    assert "--inputs has no effect" not in call(*words, "--config", settings).err
    assert "--inputs has no effect" in call(*words, "--no-config").err


def test_a_shell_knows_the_words_of_every_value_that_it_is_to_offer() -> None:
    arguments = [option for command in COMMANDS_BY_NAME.values() for _, option in command.arguments]
    kinds = {option.shell_words for option in (*OPTIONS.values(), *arguments)} - {None}
    assert kinds == set(COMPLETERS)


def test_what_a_configuration_may_set_is_an_option_without_a_default() -> None:
    assert set(SETTINGS) <= set(OPTIONS)
    configured = {name for name, _, (option, _) in DECLARED if option == "config"}
    wrong = [(name, o) for name, _, (o, one) in DECLARED if name in configured and o in SETTINGS and one.default is not None]
    assert wrong == []
