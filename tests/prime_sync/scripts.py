"""Runs small programs in an interpreter of their own: for signals, fork and interpreter exit."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PRELUDE = """
import asyncio, atexit, gc, os, signal, sys, threading, time
from prime_sync._bridge import BRIDGE
"""

# Python 3.12 warns of every fork in a process with threads; that it works here is what is tested.
FORK_WARNING = "ignore:This process:DeprecationWarning"


@dataclass
class Outcome:
    """What a program printed, how it ended, and after how many seconds."""

    lines: list[str]
    errors: str
    code: int
    seconds: float


def run(
    program: str, *, interrupt_at: str | None = None, when: threading.Event | None = None
) -> Outcome:
    """Run a program to its end.

    Send SIGINT once it has printed the line ``interrupt_at``, and ``when`` is set.
    """
    return _run("-c", PRELUDE + textwrap.dedent(program), interrupt_at, when)


def run_file(path: Path) -> Outcome:
    """Run the program in a file to its end."""
    return _run(str(path), "", None, None)


def _run(what: str, text: str, interrupt_at: str | None, when: threading.Event | None) -> Outcome:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-u", "-W", FORK_WARNING, what, text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = []
    if interrupt_at is not None:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(line)
            if line.strip() == interrupt_at:
                assert when is None or when.wait(30)
                began = time.monotonic()
                process.send_signal(signal.SIGINT)
                break
    output, errors = process.communicate(timeout=60)
    lines = ("".join(seen) + output).splitlines()
    return Outcome(lines, errors, process.returncode, time.monotonic() - began)
