"""What the user sees of the bridge: tracebacks without its frames, warnings at the user's line."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType, TracebackType

__all__ = ["trimmed", "unwrapped", "warn_of_running_loop"]

_MACHINERY = frozenset(
    {f"prime_sync._{part}" for part in ("bridge", "calls", "iterators", "mailbox", "scopes")}
)


def trimmed(traceback: TracebackType | None) -> TracebackType | None:
    """Cut the leading frames of the bridge, unless ``PRIME_SYNC_TRACEBACK=1``.

    To be set on the exception just before a bare ``raise``, which does not add its frame again.
    """
    if os.environ.get("PRIME_SYNC_TRACEBACK") == "1":
        return traceback
    while traceback is not None and traceback.tb_frame.f_globals.get("__name__") in _MACHINERY:
        traceback = traceback.tb_next
    return traceback


def unwrapped(error: BaseException) -> BaseException:
    """Return the error in a group of one: that is the one an ``except`` of the user names."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def warn_of_running_loop(name: str) -> None:
    """Warn, once per line of the user's code, that a blocking call stops the loop it is made in.

    Silent in an IPython kernel, where a loop always runs and nobody waits for it.
    """
    if not _in_kernel():
        message = f"a blocking call stops the event loop it is made in; use {name} here"
        warnings.warn(message, RuntimeWarning, stacklevel=_user_level())


def _in_kernel() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _user_level() -> int:
    """Return the ``stacklevel``, seen from our caller, of the first frame outside this package."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package(frame) == "prime_sync":
        frame, level = frame.f_back, level + 1
    return level


def _package(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]
