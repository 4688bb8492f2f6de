"""What an exiting interpreter ends."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(body: str) -> tuple[int, list[str], str]:
    script = "import os, sys, threading, time\nfrom prime_async import signals\n" + body
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


ENDINGS = {
    "falls off the end": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "unhandled error": ("raise RuntimeError", 1),
    "system exit by SIGTERM": ("raise SystemExit(143)", 143),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_registered_ends_run_latest_first(ending: str) -> None:
    """Whatever ends the program, all ends run, in reverse, and the exit code is not changed."""
    statement, code = ENDINGS[ending]
    found = run(
        "for n in (1, 2, 3):\n"
        "    signals.at_exit(lambda left, n=n: print(n, 9 < left <= 10), name='x')\n" + statement
    )
    assert found[:2] == (code, ["3 True", "2 True", "1 True"])


def test_taken_back() -> None:
    """What was ended in good order is not ended again."""
    body = "cancel = signals.at_exit(lambda left: print('no'), name='x')\ncancel()\ncancel()\n"
    assert run(body) == (0, [], "")


def test_error_is_logged_and_the_rest_goes_on() -> None:
    """One end that fails does not keep the others from running."""
    code, lines, errors = run(
        "signals.at_exit(lambda left: print('other'), name='other')\n"
        "signals.at_exit(lambda left: 1 / 0, name='sandbox sbx-1')\n"
    )
    assert (code, lines) == (0, ["other"])
    assert "could not end sandbox sbx-1 at exit" in errors
    assert "ZeroDivisionError" in errors


def test_budget_is_shared_and_what_is_left_is_named() -> None:
    """When the time is used up, the program ends and says what it did not end."""
    code, lines, errors = run(
        "signals.EXIT_SECONDS = 0.2\n"
        "signals.at_exit(lambda left: print('never'), name='sandbox sbx-1')\n"
        "signals.at_exit(lambda left: time.sleep(left), name='slow')\n"
    )
    assert (code, lines) == (0, [])
    assert "not ended within 0.2 s at exit: sandbox sbx-1" in errors


def test_threads_end_first() -> None:
    """Work that is still going on in a thread keeps what it uses until it has ended."""
    _, lines, _ = run(
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    print('worked', flush=True)\n"
        "signals.at_exit(lambda left: print('ended'), name='x')\n"
        "threading.Thread(target=work).start()\n"
    )
    assert lines == ["worked", "ended"]


def test_runs_before_hooks_that_were_there_at_registration() -> None:
    """What an end uses (the sync facade's loop closes by such a hook) is still there."""
    _, lines, _ = run(
        "import atexit\n"
        "signals.at_exit(lambda left: print('first'), name='x')\n"
        "atexit.register(print, 'loop closed')\n"
        "signals.at_exit(lambda left: print('second'), name='x')\n"
    )
    assert lines == ["second", "first", "loop closed"]


def test_FR04_forked_child_ends_nothing() -> None:
    """A child that exits leaves its parent's belongings alone; its own it ends."""
    _, lines, _ = run(
        "signals.at_exit(lambda left: print('parent', flush=True), name='x')\n"
        "if child := os.fork():\n"
        "    os.waitpid(child, 0)\n"
        "else:\n"
        "    signals.at_exit(lambda left: print('child', flush=True), name='y')\n"
    )
    assert lines == ["child", "parent"]
