"""The embedded platform from the outside: where it lives, whether it runs, start and stop.

It runs as one daemon per home directory, in its own process: nothing here imports the server.
"""

from prime_async.local.address import LocalAddress
from prime_async.local.context import make_current_if_unset
from prime_async.local.control import LocalStatus, Stopped, status, stop
from prime_async.local.paths import LocalPaths
from prime_async.local.start import ensure_running

__all__ = [
    "LocalAddress",
    "LocalPaths",
    "LocalStatus",
    "Stopped",
    "ensure_running",
    "make_current_if_unset",
    "status",
    "stop",
]
