"""Entry of the spawner process: the descriptor of its channel is its only argument."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from prime_async.server.runtimes.spawner.service import Service

__all__ = ["main"]


def main() -> None:
    """Serve the channel until the server is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A terminal's or a supervisor's signal is for the server; its end is ours.
        signal.signal(number, signal.SIG_IGN)
    # The server's own may be narrower than what the sandboxes' user needs to get through.
    os.umask(0o022)
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.setblocking(True)
    service = Service(channel)
    # What is here now is here for good: not looking at it keeps forks from copying it.
    gc.freeze()
    service.run()
