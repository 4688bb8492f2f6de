"""How long the command takes to say who it is: whole processes, ours beside the official one."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

from benchmarks.harness import Contender, Figures, case, race, run_command

__all__ = ["run"]

_ROUNDS = 7


def run() -> dict[str, Any]:
    """Measure ``--help`` and ``--version``."""
    cases = {flag.strip("-"): _measure(flag) for flag in ("--help", "--version")}
    return {"name": "startup", "cases": cases}


def _measure(flag: str) -> dict[str, Any]:
    argv = {
        "ours": [_script("prime-async"), flag],
        "peer": [_script("prime"), flag],
        "floor": [sys.executable, "-c", "pass"],
    }
    contenders = [
        Contender(role, "benchmarks.startup:command", {"argv": words})
        for role, words in argv.items()
    ]
    return case(race(contenders, rounds=_ROUNDS))


def command(argv: list[str]) -> Figures:
    """Contender: one command, once warmed so that its files are in the page cache."""
    run_command(argv)
    return run_command(argv)


def _script(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)
