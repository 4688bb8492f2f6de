"""The table of rules: which scenario shows which rule on which face, and why not on the others.

    @scenario(2, not_command="it has no call that posts what it is given")
    async def test_a_plain_post_is_never_repeated(surface: Surface, official: OfficialStub) -> None:
        ...

A scenario is written once, against a :class:`~tests.rules.surfaces.Surface`, and runs once per
face. ``not_async``, ``not_sync`` and ``not_command`` leave a face out and say why.
``test_table.py`` holds the table against the rules: every rule on every face, or a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

__all__ = ["FACES", "RULES", "TABLE", "Scenario", "scenario"]

FACES = ("async", "sync", "command")

RULES = {
    1: "Deadlines: every public call ends",
    2: "Retries: repeated where that is harmless, never blindly",
    3: "Cancel: what was started ends, and says so",
    4: "Loss: nothing is dropped in silence",
    5: "Memory: everything that buffers is bounded in bytes",
    6: "The loop: nothing holds it for long",
    7: "Values: one table says how they are written",
    8: "Errors: one tree; what happened, to what, what to do",
    9: "Secrets: never in logs, reprs, errors, spools or process titles",
    10: "Many loops, threads, processes",
}

Test = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the table.

    Attributes:
        rule: number of the rule it shows.
        name: name of the test.
        left_out: face to the reason why the scenario does not run there.
        shows: the public calls and commands it shows the rule on, as they are listed.
    """

    rule: int
    name: str
    left_out: dict[str, str]
    shows: frozenset[str] = frozenset()

    @property
    def faces(self) -> tuple[str, ...]:
        """Where it runs."""
        return tuple(face for face in FACES if face not in self.left_out)


TABLE: dict[str, Scenario] = {}
"""Every scenario that was imported, by the name of its test."""


def scenario(
    rule: int,
    *,
    shows: Iterable[object] = (),
    not_async: str = "",
    not_sync: str = "",
    not_command: str = "",
) -> Callable[[Test], Test]:
    """Enter a test into the table and run it once per face; its parameter is ``surface``.

    Args:
        shows: calls, handles' calls and commands, which :mod:`tests.rules.coverage` looks for.
    """
    reasons = {"async": not_async, "sync": not_sync, "command": not_command}

    def enter(test: Test) -> Test:
        left_out = {face: reason for face, reason in reasons.items() if reason}
        row = Scenario(rule, test.__name__, left_out, frozenset(map(str, shows)))
        TABLE[row.name] = row
        return pytest.mark.parametrize("surface", row.faces, indirect=True)(test)

    return enter
