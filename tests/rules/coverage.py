"""What the rules are shown on: every public call, function and command, rule by rule.

A new one is missing in every rule until a scenario shows it (``scenario(..., shows=...)``), a test
elsewhere does (:data:`ELSEWHERE`), or a line here says why the rule does not touch it
(:data:`NOT_TOUCHED`). ``test_table.py`` compares.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

import prime_async
import prime_async.bridges
import prime_async.runs
import prime_async.traces
from tests.rules.calls import ALL_CALLS
from tests.rules.commands import COMMAND_NAMES
from tests.rules.handles import HANDLE_CALLS, HANDLES
from tests.rules.reasons import ELSEWHERE, EVERY_COMMAND, NOT_TOUCHED
from tests.rules.table import RULES, Scenario

__all__ = ["PACKAGES", "PUBLIC", "known_classes", "missing", "public_functions", "surplus"]

PLAIN_OF_RUNS = (
    "log_distributions",
    "log_episode",
    "log_episodes",
    "log_metrics",
    "log_samples",
    "log_trace",
    "log_traces",
    "update_summary",
    "begin_finish",
)
"""Plain functions of a run that take what is to be sent, or end it."""

PACKAGES = (prime_async, prime_async.runs, prime_async.traces, prime_async.bridges)


def public_functions() -> Iterator[str]:
    """Name the public asynchronous functions of the packages."""
    for package in PACKAGES:
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
                yield name


def known_classes() -> set[type]:
    """Return the classes whose calls are listed, and what they are made of."""
    kinds = {call.kind for call in ALL_CALLS} | {call.owner for call in ALL_CALLS} | set(HANDLES)
    return {base for kind in kinds for base in kind.__mro__}


PUBLIC = frozenset(
    [
        *map(str, ALL_CALLS),
        *map(str, HANDLE_CALLS),
        *(f"AsyncRun.{name}" for name in PLAIN_OF_RUNS),
        *public_functions(),
        *COMMAND_NAMES,
    ]
)
"""Names of all that is public and does something."""


def _named(lines: Mapping[str, str]) -> set[str]:
    names = {name.strip() for names in lines.values() for name in names.split(",")}
    names = {" ".join(name.split()) for name in names} - {""}
    return names | set(COMMAND_NAMES) if EVERY_COMMAND in names else names


def missing(table: list[Scenario], rule: int) -> set[str]:
    """Name what the rule is neither shown on nor excused from."""
    assert rule in RULES
    shown = {name for row in table if row.rule == rule for name in row.shows}
    return set(PUBLIC - shown - _named(ELSEWHERE.get(rule, {})) - _named(NOT_TOUCHED.get(rule, {})))


def surplus(rule: int) -> set[str]:
    """Name what is excused or said to be shown elsewhere, and does not exist."""
    listed = _named(ELSEWHERE.get(rule, {})) | _named(NOT_TOUCHED.get(rule, {}))
    return listed - PUBLIC - {EVERY_COMMAND}
