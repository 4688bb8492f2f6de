"""Ctrl-C and SIGTERM while something is owned: everything unwinds, the exit code says why."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from prime_async import signals

INTERRUPTED = {130, -signal.SIGINT}
"""Python ends itself by SIGINT after an uncaught KeyboardInterrupt; a shell reports 130."""


def run(script: str, *numbers: int, marker: str = "ready") -> tuple[int, list[str], str]:
    """Run a script; send one signal for each line ``marker`` it prints."""
    lines: list[str] = []
    pending = list(numbers)
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith(marker) and pending:
                process.send_signal(pending.pop(0))
        errors = process.stderr.read()
        return process.wait(20), lines, errors


ASYNC_OWNERS = """
import asyncio, contextlib
from prime_async import signals

@contextlib.asynccontextmanager
async def sandbox(number):
    with signals.armed():
        try:
            yield
        finally:
            await asyncio.sleep(0.3)
            print("deleted", number, flush=True)

async def own(number):
    async with sandbox(number):
        owners.append(number)
        if len(owners) == 20:
            print("ready", flush=True)
        await asyncio.sleep(60)

async def main():
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(own(number))

owners = []
try:
    RUN
finally:
    print("finally", flush=True)
"""

RUNNERS = {
    "asyncio.run": "asyncio.run(main())",
    "anyio.run": "import anyio; anyio.run(main)",
    "bare loop": "asyncio.new_event_loop().run_until_complete(main())",
}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_FR25_twenty_owners_clean_up(runner: str, number: signal.Signals) -> None:
    """20 owners in a task group all finish a slow clean-up, and the code is right."""
    script = ASYNC_OWNERS.replace("RUN", RUNNERS[runner])
    code, lines, errors = run(script, number)
    assert code in ({143} if number == signal.SIGTERM else INTERRUPTED), errors
    assert sorted(lines) == sorted([*(f"deleted {n}" for n in range(20)), "ready", "finally"])
    assert "never retrieved" not in errors
    assert "was destroyed" not in errors


BLOCKING_OWNER = """
import threading
from prime_async import signals
event = threading.Event()
try:
    with signals.armed(blocking=True):
        try:
            print("ready", flush=True)
            event.wait(60)
        finally:
            with signals.deferred():
                print("ready to clean up", flush=True)
                event.wait(0.3)
                print("deleted", flush=True)
finally:
    print("finally", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_blocking_owner_cleans_up(number: signal.Signals) -> None:
    """The sync facade's way: the wait in the main thread ends with an exception."""
    code, lines, errors = run(BLOCKING_OWNER, number)
    assert lines == ["ready", "ready to clean up", "deleted", "finally"], errors
    assert code in ({143} if number == signal.SIGTERM else INTERRUPTED)


def test_signal_during_clean_up_waits_for_it() -> None:
    """A first signal that arrives during blocking clean-up does not cut it."""
    script = BLOCKING_OWNER.replace("event.wait(60)", "pass").replace('"ready", ', '"start", ')
    code, lines, errors = run(script, signal.SIGTERM)
    assert lines == ["start", "ready to clean up", "deleted", "finally"], errors
    assert code == 143


def test_second_signal_ends_at_once() -> None:
    """Who asks twice does not wait for clean-up."""
    script = BLOCKING_OWNER.replace("event.wait(0.3)", "event.wait(60)")
    code, lines, _ = run(script, signal.SIGTERM, signal.SIGTERM)
    assert code == -signal.SIGTERM
    assert "deleted" not in lines


def test_blocking_wait_below_a_running_loop_is_interrupted() -> None:
    """As in a notebook: the main thread waits inside a callback of a running loop."""
    script = (
        "import asyncio, threading\n"
        "from prime_async import signals\n"
        "def cell():\n"
        "    with signals.armed(blocking=True):\n"
        "        try:\n"
        "            print('ready', flush=True)\n"
        "            threading.Event().wait(60)\n"
        "        finally:\n"
        "            print('deleted', flush=True)\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.call_soon(cell)\n"
        "loop.run_forever()\n"
    )
    code, lines, _ = run(script, signal.SIGTERM)
    assert (code, lines) == (143, ["ready", "deleted"])


def test_loop_without_a_main_task_is_left() -> None:
    """``run_forever`` has no task to cancel: the loop itself is left with the exit code."""
    script = (
        "import asyncio\n"
        "from prime_async import signals\n"
        "loop = asyncio.new_event_loop()\n"
        "with signals.armed():\n"
        "    loop.call_soon(lambda: print('ready', flush=True))\n"
        "    loop.run_forever()\n"
    )
    code, _, _ = run(script, signal.SIGTERM)
    assert code == 143


def test_FR43_handler_of_the_user_runs() -> None:
    """A handler that was there first is not replaced; its exit code counts."""
    script = (
        "import signal, sys, threading\n"
        "from prime_async import signals\n"
        "def own(number, frame):\n"
        "    print('own handler', flush=True)\n"
        "    sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, own)\n"
        "with signals.armed(blocking=True):\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        threading.Event().wait(60)\n"
        "    finally:\n"
        "        print('deleted', flush=True)\n"
    )
    assert run(script, signal.SIGTERM)[:2] == (7, ["ready", "own handler", "deleted"])


@pytest.mark.parametrize("release_first", [False, True])
def test_FR43_handler_above_ours_is_kept_and_may_call_it(release_first: bool) -> None:
    """A handler put above ours stays at release; calling ours then is the default reaction."""
    script = (
        "import signal, sys, threading\n"
        "from prime_async import signals\n"
        "hold = signals.armed(blocking=True)\n"
        "hold.__enter__()\n"
        "before = signal.getsignal(signal.SIGTERM)\n"
        "def own(number, frame):\n"
        "    print('own handler', flush=True)\n"
        "    before(number, frame)\n"
        "signal.signal(signal.SIGTERM, own)\n"
        f"if {release_first}: hold.__exit__(None, None, None)\n"
        "assert signal.getsignal(signal.SIGTERM) is own\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    threading.Event().wait(60)\n"
        "finally:\n"
        "    print('unwound', flush=True)\n"
    )
    code, lines, _ = run(script, signal.SIGTERM)
    if release_first:
        assert (code, lines) == (-signal.SIGTERM, ["ready", "own handler"])
    else:
        assert (code, lines) == (143, ["ready", "own handler", "unwound"])


def test_forked_child_keeps_the_default_reaction() -> None:
    """A child that is terminated does not unwind into its parent's clean-up."""
    script = (
        "import os, signal, time\n"
        "from prime_async import signals\n"
        "reading, writing = os.pipe()\n"
        "with signals.armed():\n"
        "    try:\n"
        "        if not (child := os.fork()):\n"
        "            os.write(writing, b'.')\n"
        "            while True: time.sleep(0.01)\n"
        "        os.read(reading, 1)\n"
        "        os.kill(child, signal.SIGTERM)\n"
        "        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    finally:\n"
        "        print('deleted', flush=True)\n"
    )
    assert run(script)[:2] == (0, [str(-signal.SIGTERM), "deleted"])


def test_handlers_are_restored() -> None:
    """After the last hold the handlers are what they were, whatever the order of release."""

    def handlers() -> list[object]:
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    before = handlers()
    assert before == [signal.default_int_handler, signal.SIG_DFL]
    first, second = signals.armed(), signals.armed(blocking=True)
    first.__enter__()
    second.__enter__()
    assert signal.SIG_DFL not in handlers()
    first.__exit__(None, None, None)
    assert signal.SIG_DFL not in handlers()
    second.__exit__(None, None, None)
    assert handlers() == before


def test_ignored_signal_stays_ignored() -> None:
    """A shell that starts a job in the background ignores Ctrl-C for it; so do we."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals.armed():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_do_nothing() -> None:
    """Only the main thread receives signals; elsewhere both blocks are empty."""
    seen: list[object] = []

    def work() -> None:
        with signals.armed(), signals.deferred():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
