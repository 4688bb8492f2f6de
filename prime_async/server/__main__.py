"""``python -m prime_async.server``: the daemon, normally started by ``prime_async.local``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from prime_async.errors import PrimeError
from prime_async.local.paths import LocalPaths

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the platform until it is told to stop; return the exit code."""
    options = _parser().parse_args(arguments)
    report = _print_report
    try:
        paths = LocalPaths.find(options.home)
        paths.make()
        if options.detach:
            report = _Pipe.to_the_launcher(paths)
        return _run(paths, options, report)
    except PrimeError as error:
        report({"error": error.message, "hint": error.hint})
        return 1
    except BaseException as error:
        if not isinstance(error, SystemExit):
            report({"error": f"{type(error).__name__}: {error}"})
        raise


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("prime_async.server", description="The embedded platform.")
    parser.add_argument("--home", type=Path, help="home directory (default: yours)")
    parser.add_argument("--port", type=_port, help="loopback port (default: the one from before)")
    parser.add_argument(
        "--ingest-per-second",
        type=float,
        metavar="N",
        help="uploads, exports and records an account may send in a second (default: any number)",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--detach", action="store_true", help="go on in a process of its own")
    way.add_argument("--foreground", action="store_true", help="stay and log here (the default)")
    return parser


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to 65535")
    return port


def _run(paths: LocalPaths, options: argparse.Namespace, report: Any) -> int:
    # Imported after the fork: the process that only waits for the other one needs none of it.
    from prime_async.server.config import Limits
    from prime_async.server.daemon import Daemon
    from prime_async.server.logfile import configure_logging

    os.umask(0o077)
    configure_logging(paths.log, foreground=not options.detach)
    limits = Limits(ingest_per_second=options.ingest_per_second)
    return Daemon(paths, options.port, report, limits).run()


def _print_report(report: dict[str, Any]) -> None:
    """In the foreground the log says that all is well; what stops the start is said here."""
    text = report.get("error") or ("the platform already runs" if report.get("busy") else "")
    if text:
        hint = report.get("hint")
        sys.stderr.write(f"{text} ({hint})\n" if hint else f"{text}\n")
    for note in report.get("notes", ()):
        sys.stderr.write(f"{note}\n")


class _Pipe:
    """Carries the one report of the daemon to the process that forked it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def __call__(self, report: dict[str, Any]) -> None:
        if self._descriptor is not None:
            os.write(self._descriptor, json.dumps(report).encode())
            os.close(self._descriptor)
            self._descriptor = None

    @classmethod
    def to_the_launcher(cls, paths: LocalPaths) -> _Pipe:
        """Fork. The daemon returns from here; the launcher hands on its report and exits.

        That way the daemon is nobody's child who could collect it, and its starter, which waits for
        the launcher, learns how the start went.
        """
        reading, writing = os.pipe()
        if os.fork():
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe:
                sys.stdout.buffer.write(pipe.read())
            sys.exit(0)
        os.close(reading)
        os.setsid()
        _detach_streams(paths)
        return cls(writing)


def _detach_streams(paths: LocalPaths) -> None:
    """Let go of the starter's terminal and pipes before anything can be printed."""
    from prime_async.server.logfile import open_private, redirect_output

    null, log = os.open(os.devnull, os.O_RDWR), open_private(str(paths.log))
    os.dup2(null, 0)
    redirect_output(log)
    os.close(null)
    os.close(log)


if __name__ == "__main__":
    sys.exit(main())
