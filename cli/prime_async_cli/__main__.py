"""Entry of the ``prime-async`` command.

Nothing heavy is imported here: ``--version`` and the help pages end before asyncclick is loaded.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main", "version_line"]


def version_line() -> str:
    """Return what ``--version`` prints."""
    from prime_async._version import __version__

    return f"prime-async {__version__}"


def main() -> int:
    """Run the command line; the result is the exit code."""
    try:
        return _main(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the command: there is nothing to clean up
        return 130


def _main(arguments: list[str]) -> int:
    from prime_async_cli import streams

    streams.prepare()
    code = 1
    try:
        code = _run(arguments)
        streams.close_output()
    except streams.OutputError as problem:
        streams.write(f"error: standard output cannot be written: {problem}\n", error=True)
        return code or 1
    return code


def _run(arguments: list[str]) -> int:
    from prime_async_cli import streams

    if arguments in (["--version"], ["-v"]):
        streams.write(version_line() + "\n")
        return 0
    page = _ready_help(arguments)
    if page is not None:
        streams.write(page)
        return 0
    from prime_async_cli.app import main as run

    return run(arguments)


def _ready_help(arguments: list[str]) -> str | None:
    """Return the help page that is asked for, if it lies ready and nothing else is asked for."""
    from prime_async_cli import streams

    if arguments[-1:] not in (["--help"], ["-h"]) or "_PRIME_ASYNC_COMPLETE" in os.environ:
        return None
    from prime_async_cli.pages import WIDTH, ready_page

    return ready_page(arguments[:-1]) if streams.screen_width() > WIDTH else None


if __name__ == "__main__":
    sys.exit(main())
