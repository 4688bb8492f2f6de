"""The reference page and the ready-made help pages, both made from the command tree.

``python -m prime_async_cli.reference FILE...`` writes them, ``--check FILE...`` says whether the
files are what it would write; without arguments the reference page is printed. A file called
``*.txt`` gets the help pages.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncclick

from prime_async_cli import streams
from prime_async_cli.app import root
from prime_async_cli.command import Command, Group
from prime_async_cli.pages import MARK, WIDTH
from prime_async_cli.tree import Node, walk

__all__ = ["help_pages", "main", "reference"]

_INTRODUCTION = """\
# The `prime-async` command

<!-- Made by `make generate`; a test compares it with the commands. -->

## What holds for every command

**Output.** Data go to standard output, everything else to standard error. `--output table` (the
default) fits tables to a terminal: long texts are shortened, then columns are left out and named;
ids are never cut; in lists of traces and runs, what all rows have in common is said once below. In
a pipe, and with `--plain`, a row is one line and nothing is cut or left out.
`--output json` writes exactly one JSON document; nothing else comes on standard output. Commands
that go on (`traces tail`, `traces sync --watch`) write one JSON object per line. Colours
appear on a terminal only, and not with `NO_COLOR`, `TERM=dumb` or `--plain`. Control characters in
data are written out (`\\e`, `\\x07`); square brackets are just brackets. A reader that leaves early
(`| head -1`) is no failure.

**Errors** come in one form on standard error: what happened, where, why, what next. With
`--output json` the last line of standard error is one object,
`{"error": {"type", "message", "where", "why", "hint", "exit_code", ...}}`, with `status`, `code`,
`request_id`, `retry_after`, `errors`, `path`, `line`, `column`, `index`, `field` and
`evaluation_id` where they are known; warnings are lines `{"warning": {"message"}}` before it.
`PRIME_DEBUG=1` adds the traceback. No output ever holds an API key, except that of `local env`,
which is there to print one.

**Exit codes.**

| Code | Meaning |
|---|---|
| 0 | done; also: nothing found, or "no" to a question |
| 1 | failed, or not everything was delivered |
| 2 | called wrongly: unknown command or option, a value that cannot be used, `--yes` missing |
| 130 | interrupted (Ctrl-C); what the command had begun was cleaned up |
| 143 | ended by SIGTERM; likewise |

**Questions** are asked on a terminal only. Elsewhere a command that would ask says that it needs
`--yes`, and ends with 2.

**Where it talks to.** `--context NAME` chooses a saved context for one command; `local` is the
embedded platform, which is started when needed, `production` the hosted one. Otherwise the
environment counts (`PRIME_API_KEY` with `PRIME_API_BASE_URL`, `PRIME_TEAM_ID`, `PRIME_CONTEXT`),
then `~/.prime/config.json`. `prime-async config view` shows what counts and why.

**Completion.** `eval "$(prime-async completion bash)"`, likewise `zsh`;
`prime-async completion fish | source`.
"""


def reference() -> str:
    """Return the whole page."""
    nodes = [node for node in walk(root) if node.words]
    parts = [_INTRODUCTION, "## Commands\n", *_overview(nodes)]
    parts += [_section(node) for node in nodes]
    return "\n".join(parts).rstrip() + "\n"


def _overview(nodes: list[Node]) -> Iterator[str]:
    yield "| Command | |\n|---|---|"
    for node in nodes:
        if not isinstance(node.command, Group):
            name = " ".join(node.words)
            yield f"| [`{name}`](#prime-async-{'-'.join(node.words)}) | {node.short} |"
    yield ""


def _section(node: Node) -> str:
    level = "##" if len(node.words) == 1 else "###"
    lines = [f"{level} prime-async {' '.join(node.words)}", "", inspect.cleandoc(_help(node)), ""]
    if isinstance(node.command, Group):
        return "\n".join(lines)
    usage = " ".join([node.context.command_path, *node.command.collect_usage_pieces(node.context)])
    lines += ["```text", usage, "```", ""]
    lines += _rows("Argument", _arguments(node)) + _rows("Option", _options(node))
    if isinstance(node.command, Command) and node.command.examples:
        lines += ["```console", inspect.cleandoc(node.command.examples), "```", ""]
    return "\n".join(lines)


def _help(node: Node) -> str:
    return node.command.help or ""


def _arguments(node: Node) -> list[tuple[str, str]]:
    return [
        (param.make_metavar(node.context), getattr(param, "help", "") or "")
        for param in node.command.get_params(node.context)
        if isinstance(param, asyncclick.Argument)
    ]


def _options(node: Node) -> list[tuple[str, str]]:
    records = [
        param.get_help_record(node.context)
        for param in node.command.get_params(node.context)
        if isinstance(param, asyncclick.Option) and param.name not in ("plain", "context", "help")
    ]
    return [record for record in records if record is not None]


def _rows(title: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    lines = [f"| {title} | |", "|---|---|"]
    lines += [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows]
    return [*lines, ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def help_pages() -> str:
    """Return the help page of every command, each after a line with its words."""
    return "".join(
        f"{MARK}{' '.join(node.words)}\n{node.command.get_help(node.context)}\n"
        for node in walk(root, width=WIDTH)
    )


def main(arguments: list[str]) -> int:
    """Print, write or check; 1 when a checked file is not up to date."""
    streams.prepare()
    check = arguments[:1] == ["--check"]
    files = [Path(name) for name in arguments[check:]]
    if not files:
        streams.write(reference())
    old = [file for file in files if not _is_up_to_date(file)]
    for file in old:
        if check:
            streams.write(f"{file} is not up to date: make generate\n", error=True)
        else:
            file.write_text(_made_for(file), "utf-8", newline="\n")
    return int(check and bool(old))


def _made_for(file: Path) -> str:
    return help_pages() if file.suffix == ".txt" else reference()


def _is_up_to_date(file: Path) -> bool:
    return file.is_file() and file.read_text("utf-8") == _made_for(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
