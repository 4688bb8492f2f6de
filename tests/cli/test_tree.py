"""A walk over the whole command tree: every command has help, every option an explanation."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import asyncclick
import pytest
from prime_async_cli.app import root
from prime_async_cli.command import Command, Group
from prime_async_cli.reference import main as reference_main
from prime_async_cli.reference import reference
from prime_async_cli.tree import Node, walk

from tests.cli.harness import Ran

NODES = list(walk(root))
NAMES = [" ".join(node.words) or "(root)" for node in NODES]
PRINTS_ONLY_TEXT = {"completion"}
each_command = pytest.mark.parametrize("node", NODES, ids=NAMES)


def first_sentence(command: asyncclick.Command) -> str:
    return (command.help or "").strip().split("\n\n")[0].replace("\n", " ")


@each_command
def test_help_of_every_command(node: Node, inside: Callable[..., Ran]) -> None:
    """`--help` and `-h` print the same page and end with 0."""
    ran = inside(*node.words, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: prime-async")
    assert inside(*node.words, "-h").out == ran.out
    assert ran.out.isascii()
    assert max(len(line) for line in ran.out.splitlines()) <= 90


@each_command
def test_every_option_and_argument_is_explained(node: Node) -> None:
    """Nothing on a help page stands without words."""
    for param in node.command.get_params(node.context):
        text = getattr(param, "help", None)
        assert text, f"{node.words} {param.name}"
        assert text.endswith("."), text


@each_command
def test_the_short_help_is_the_first_sentence(node: Node) -> None:
    """What a group says about a command is what the command says about itself."""
    if node.words:
        assert first_sentence(node.command).startswith(node.short.rstrip(".")), node.short


@each_command
def test_every_command_that_prints_data_can_print_json(node: Node) -> None:
    """`--output/-o` is on every command; only scripts for a shell have no JSON form."""
    if isinstance(node.command, Command) and node.words[0] not in PRINTS_ONLY_TEXT:
        names = {name for param in node.command.params for name in param.opts}
        assert {"-o", "--output", "--plain", "--context", "-h", "--help"} <= names


@each_command
def test_a_bare_group_prints_its_help_and_is_a_usage_error(
    node: Node, inside: Callable[..., Ran]
) -> None:
    """Exit 2, the page on standard error."""
    if isinstance(node.command, Group):
        ran = inside(*node.words)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("Usage: ")


@each_command
def test_one_letter_means_one_thing(node: Node) -> None:
    """Short options keep their meaning over the whole tree."""
    meanings = {
        "-a": "--all",
        "-c": ("--context", "--upload-context"),
        "-e": "--env",
        "-f": "--follow",
        "-h": "--help",
        "-l": "--label",
        "-n": ("--limit", "--tail"),
        "-o": "--output",
        "-p": "--page",
        "-r": "--run-id",
        "-s": "--sandbox",
        "-t": "--tty",
        "-u": "--user",
        "-v": "--version",
        "-w": "--workdir",
        "-y": "--yes",
    }
    for param in node.command.params:
        for short in (name for name in param.opts if re.fullmatch("-[a-z]", name)):
            meaning = meanings[short]
            allowed = {meaning} if isinstance(meaning, str) else set(meaning)
            assert allowed & set(param.opts), f"{node.words} {short}"


def test_lists_can_be_called_ls() -> None:
    """`ls` stands for `list` in every group that has one."""
    for node in NODES:
        if isinstance(node.command, Group) and "list" in node.command.entries:
            assert node.command.entries["ls"].target == node.command.entries["list"].target


def test_the_reference_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/cli.md is what the tree says."""
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    assert reference_main(["--check", str(page)]) == 0, capsys.readouterr().err


def test_the_reference_page_can_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` tells an old page, writing makes a new one, no argument prints it."""
    page = tmp_path / "cli.md"
    assert reference_main(["--check", str(page)]) == 1
    assert "not up to date" in capsys.readouterr().err
    assert reference_main([str(page)]) == 0
    assert reference_main(["--check", str(page)]) == 0
    assert reference_main([]) == 0
    assert capsys.readouterr().out == reference() == page.read_text("utf-8")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("evla",), "eval"),
        (("eval", "lits"), "list"),
        (("config", "set-team"), "set-team-id"),
        (("push", "DIR"), "eval push"),
        (("start",), "local start"),
    ],
)
def test_an_unknown_command_suggests_the_nearest(
    typed: tuple[str, ...], meant: str, inside: Callable[..., Ran]
) -> None:
    """Exit 2 and a guess."""
    ran = inside(*typed)
    assert ran.code == 2
    assert f"'{meant}'" in ran.err


def test_an_option_without_its_value_names_the_command(inside: Callable[..., Ran]) -> None:
    """The page that helps is that of the command, not that of the program."""
    ran = inside("eval", "push", "DIR", "--trim")
    assert ran.code == 2
    assert "`prime-async eval push --help`" in ran.err


def test_an_unknown_option_suggests_the_nearest(inside: Callable[..., Ran]) -> None:
    """Exit 2 and a guess."""
    ran = inside("eval", "list", "--limt", "3")
    assert ran.code == 2
    assert "'--limit'" in ran.err
