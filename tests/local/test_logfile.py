"""The daemon's log: private, bounded, and holding what is printed too."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

from prime_async.server.logfile import KEPT, LARGEST_BYTES


def run(log: Path, body: str, *, foreground: bool = False) -> subprocess.CompletedProcess[str]:
    script = (
        "import logging, os, pathlib, sys, warnings\n"
        "from prime_async.server import logfile\n"
        "os.umask(0o022)\n"
        f"logfile.configure_logging(pathlib.Path({str(log)!r}), foreground={foreground})\n"
        "log = logging.getLogger('prime_async.server')\n" + body
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )


def test_events_and_everything_printed_are_in_one_private_file(tmp_path: Path) -> None:
    """Events carry UTC time and level; prints, child processes and warnings end up there too."""
    log = tmp_path / "server.log"
    done = run(
        log,
        "log.info('listening port=%d', 1)\n"
        "log.debug('not this')\n"
        "logging.getLogger('aiohttp.access').info('nor this')\n"
        "print('printed', flush=True)\n"
        "os.system('echo from a child >&2')\n"
        "warnings.warn('careful')\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: log.exception('failed')\n",
    )
    text = log.read_text()
    assert done.stdout == done.stderr == ""
    assert "Z INFO prime_async.server listening port=1\n" in text
    for part in ("printed\n", "from a child\n", "careful", "ZeroDivisionError"):
        assert part in text
    assert "this" not in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_foreground_logs_to_the_terminal_as_well(tmp_path: Path) -> None:
    """By hand in a terminal both places have the events, and prints stay where they are."""
    done = run(tmp_path / "log", "log.info('hello')\nprint('printed')\n", foreground=True)
    assert "INFO prime_async.server hello" in done.stderr
    assert done.stdout == "printed\n"
    assert "hello" in (tmp_path / "log").read_text()


def test_large_log_is_rotated_at_the_start(tmp_path: Path) -> None:
    """What the last daemon left is put aside when it is large, else continued."""
    log = tmp_path / "server.log"
    log.write_text("small\n")
    run(log, "log.info('one')\n")
    assert log.read_text().startswith("small\n")
    log.write_bytes(b"x" * (LARGEST_BYTES + 1))
    run(log, "log.info('two')\nprint('three', flush=True)\n")
    assert log.with_name("server.log.1").stat().st_size == LARGEST_BYTES + 1
    assert "two" in log.read_text()
    assert "three" in log.read_text()


def test_size_is_bounded_while_it_runs(tmp_path: Path) -> None:
    """However much is logged, a few private files are kept, and prints follow to the new one."""
    log = tmp_path / "server.log"
    run(
        log,
        "logging.getLogger().handlers[0].maxBytes = 10_000\n"
        "for n in range(2000): log.info('event %d', n)\n"
        "print('at the end', flush=True)\n",
    )
    files = sorted(tmp_path.iterdir())
    assert len(files) == KEPT + 1
    assert sum(file.stat().st_size for file in files) < 10_000 * (KEPT + 1) + 1000
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert log.read_text().endswith("at the end\n")
