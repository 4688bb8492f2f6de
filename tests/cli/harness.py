"""Ways to run the command line."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = str(Path(sysconfig.get_path("scripts")) / "prime-async")
CANARY = "sk-CANARY-123-0123456789"
"""The key every command runs with; no output may ever hold it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    @property
    def everything(self) -> str:
        return self.out + self.err


def run_command(*arguments: str, **options: Any) -> Ran:
    """Run the installed command in a process of its own, without a terminal."""
    env = {**os.environ, **options.pop("env", {})}
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    done = subprocess.run(
        [COMMAND, *arguments],
        env={name: value for name, value in env.items() if value is not None},
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=60,
        check=False,
        **options,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
