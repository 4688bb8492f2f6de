"""What the daemon writes about itself for the processes that look for it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from prime_async.config.files import fault, read_object, write_object
from prime_async.errors import ConfigError
from prime_async.local.address import LocalAddress
from prime_async.local.paths import LocalPaths
from prime_async.local.processes import is_process

__all__ = ["State", "read_state", "set_state_aside", "write_state"]


@dataclass(frozen=True, slots=True)
class State:
    """The content of ``state.json`` (0600).

    Attributes:
        port: the loopback port, kept over restarts.
        port_chosen: the user named the port; it is not changed without him.
        version: version of the package the daemon runs.
        pid: the daemon, or None when it ended in good order.
        process_start: when that process started, as the system tells it; tells it from another one
            that got its number later.
        started_at: UTC time in ISO format.
        host: name of the machine it runs on; home directories can be shared between machines.
        unix_socket: path of the socket, or None.
        api_key: the key; never shown by ``repr``.
    """

    port: int
    port_chosen: bool = False
    version: str = ""
    pid: int | None = None
    process_start: str | None = None
    started_at: str | None = None
    host: str | None = None
    unix_socket: str | None = None
    api_key: str = field(default="", repr=False)

    @property
    def alive(self) -> bool:
        """The process that wrote this is still there."""
        return self.pid is not None and is_process(self.pid, self.process_start)

    def ended(self) -> State:
        """The same after the daemon's end: only what the next one needs."""
        return replace(
            self, pid=None, process_start=None, started_at=None, host=None, unix_socket=None
        )

    def address(self, *, started: bool = False, notes: tuple[str, ...] = ()) -> LocalAddress:
        """How to reach the daemon that wrote this."""
        url = f"http://127.0.0.1:{self.port}"
        return LocalAddress(url, self.unix_socket, self.api_key, started, notes)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "port": int,
    "port_chosen": bool,
    "version": str,
    "pid": (int, type(None)),
    "process_start": (str, type(None)),
    "started_at": (str, type(None)),
    "host": (str, type(None)),
    "unix_socket": (str, type(None)),
    "api_key": str,
}


def read_state(paths: LocalPaths) -> State | None:
    """Read the daemon's last word, or None when there is none.

    Raises:
        ConfigError: the file is damaged.
    """
    values = read_object(paths.state)
    if values is None:
        return None
    known: dict[str, Any] = {}
    for name, kind in _TYPES.items():
        if name in values:
            if not isinstance(values[name], kind):
                raise fault(paths.state, f"{name} has the wrong type")
            known[name] = values[name]
    if "port" not in known:
        raise fault(paths.state, "port is missing")
    if not os.path.exists(known.get("unix_socket") or ""):  # noqa: PTH110  # None and "" are false
        # Gone without the daemon's doing (a runtime folder is emptied at logout): the port is left.
        known["unix_socket"] = None
    return State(**known)


def set_state_aside(paths: LocalPaths) -> State | None:
    """Read the state; move a damaged one out of the way, as everything in it can be made anew."""
    try:
        return read_state(paths)
    except ConfigError:
        paths.state.replace(paths.state.with_suffix(".json.damaged"))
        return None


def write_state(paths: LocalPaths, state: State) -> None:
    """Replace the file.

    Raises:
        ConfigError: it cannot be written.
    """
    write_object(paths.state, asdict(state))
