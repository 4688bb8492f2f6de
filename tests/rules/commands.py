"""Every command that asks the platform for something, with a line that suits it."""

from __future__ import annotations

from pathlib import Path

from prime_async_cli.tree import Node

from tests.cli.test_wrong_input import LEAVES, MORE, USES_NETWORK, usual
from tests.rules.arguments import SANDBOX

__all__ = ["COMMANDS", "COMMAND_NAMES", "NO_WIRE", "line_of", "name_of"]

COMMANDS = [node for node in LEAVES if node.words[0] in USES_NETWORK]
"""The others read and write files of this machine, or start the embedded platform."""

_ENDS = {
    ("eval", "delete"): ["-y"],
    ("eval", "push"): ["--env", "e", "--eval-id", "eval-1"],
    ("eval", "create"): ["--env", "e"],
    ("eval", "update"): ["--name", "x"],
    ("sandbox", "volumes", "delete"): ["-y"],
    ("sandbox", "checkpoint", "delete"): ["x1", "-y"],
    ("sandbox", "delete"): ["x1", "-y"],
    ("sandbox", "create"): ["python:3.11"],
    ("traces", "delete"): ["x1", "-y"],
}


NO_WIRE = {"traces sync": "nothing is kept that it could deliver: see sync_runs"}
"""Commands that ask nothing as long as nothing is there."""


def name_of(node: Node) -> str:
    """Its words."""
    return " ".join(node.words)


COMMAND_NAMES = [name_of(node) for node in COMMANDS]


def line_of(node: Node, folder: Path) -> list[str]:
    """Return words that it takes; what they name on disk is there.

    Args:
        folder: where files are read from and written to.
    """
    sent = folder / "sent.jsonl"
    sent.write_text('{"id": "t", "example_id": 1}\n', "utf-8")
    words = [SANDBOX if word == "x1" else word for word in usual(node)]
    if node.words in (("eval", "push"), ("traces", "upload")):
        words = [*node.words, str(sent)]
    if node.words == ("traces", "export"):
        words[-1] = str(folder / "out.jsonl")
    if node.words == ("sandbox", "upload"):
        words[-2] = str(sent)
    if node.words == ("sandbox", "download"):
        words[-1] = str(folder / "fetched")
    return [*words, *_ENDS.get(node.words, MORE.get(node.words, []))]
