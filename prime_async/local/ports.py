"""Which loopback port the platform takes, and who is on it when it is taken."""

from __future__ import annotations

import errno
import secrets
import socket
from pathlib import Path

from prime_async.errors import LocalPlatformError

__all__ = ["choose_port", "holder", "is_free"]

# Below the ports systems hand out for outgoing connections: one of those in use at the next start
# would force a move.
_FIRST, _LAST = 21_000, 29_999
_TRIES = 50


def is_free(port: int) -> bool:
    """Whether a server can listen on a loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def choose_port(wanted: int | None, before: int | None, *, chosen: bool) -> tuple[int, str | None]:
    """Return the port to listen on, and a note when it is not the one from before.

    Args:
        wanted: port the user asks for now, or None.
        before: port of the last start, or None.
        chosen: the user had asked for that one.

    Raises:
        LocalPlatformError: a port that the user chose is taken.
    """
    named = wanted if wanted is not None else before if chosen else None
    if named is not None:
        if is_free(named):
            return named, None
        raise LocalPlatformError(
            f"port {named} is taken{_by(named)}",
            hint="choose another: prime-async local start --port NUMBER",
        )
    if before is not None and is_free(before):
        return before, None
    port = _free_port()
    if before is None:
        return port, None
    note = f"port {before} is taken{_by(before)}: the local platform moved to port {port}"
    return port, note


def _free_port() -> int:
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST + 1)
        if is_free(port):
            return port
    # So many taken: let the system choose.
    return 0


def _by(port: int) -> str:
    found = holder(port)
    return f" by {found}" if found else ""


def holder(port: int) -> str | None:
    """Return the name and process number of who listens on a port; None where it cannot be seen."""
    inodes = _listening_inodes(port)
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        if inodes & _socket_inodes(process):
            return f"{_name(process)} (process {process.name})"
    return None


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a program"


def _listening_inodes(port: int) -> set[str]:
    """The sockets that listen on a port, by the numbers the kernel gives them."""
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            local, state, inode = fields[1], fields[3], fields[9]
            if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                found.add(f"socket:[{inode}]")
    return found


def _socket_inodes(process: Path) -> set[str]:
    links: set[str] = set()
    try:
        for descriptor in (process / "fd").iterdir():
            links.add(str(descriptor.readlink()))
    except OSError:
        # Another user's process, or one that ended while we looked.
        return links
    return links
