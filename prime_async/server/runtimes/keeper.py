"""The command line of a keeper. It holds paths and limits, never a secret."""

from __future__ import annotations

import math
from pathlib import Path

from prime_async.server.runtimes.layout import HostParts
from prime_async.server.runtimes.protocol import Mount
from prime_async.server.runtimes.skeleton import HOSTNAME

__all__ = ["folder_source", "keeper_command", "life", "staged"]

_SHM_SHARE = 2
_GRACE_SECONDS = 60
"""The watchdog comes first, and says why."""


def staged(name: str) -> str:
    """Where a spawner that was root shows itself a folder that its user could not reach."""
    from prime_async.server.runtimes.spawner.privileges import STAGE

    return f"{STAGE}/{name}"


def keeper_command(
    bwrap: str,
    root: str,
    parts: HostParts,
    *,
    prefix_source: str,
    skeleton_source: str,
    memory_bytes: int,
    many_ids: bool,
    seconds: float | None,
    mounts: tuple[Mount, ...] = (),
) -> list[str]:
    """Put it together.

    Args:
        bwrap: the program.
        root: the private root.
        prefix_source, skeleton_source: where the interpreter's folder and the skeleton can be
            reached.
        memory_bytes: shared memory gets half of it.
        many_ids: whether the server maps the ids, instead of bubblewrap one.
        seconds: its life time, None for no end.
        mounts: further folders.
    """
    command = [
        bwrap, "--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0",
        "--hostname", HOSTNAME, "--as-pid-1", "--info-fd", "3",
    ]  # fmt: skip
    if many_ids:
        command += ["--userns-block-fd", "4"]
    command += ["--bind", root, "/"]
    for source, target in parts.binds(prefix_source, skeleton_source):
        command += ["--ro-bind", source, target]
    for mount in mounts:
        command += ["--ro-bind" if mount.read_only else "--bind", str(mount.source), mount.target]
    command += ["--proc", "/proc", "--dev", "/dev"]
    # Without a size it could fill half of the machine's memory, beside all limits.
    size = str(memory_bytes // _SHM_SHARE)
    command += ["--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"]  # noqa: S108  # inside
    command += ["--remount-ro", "/dev", "--chdir", "/", "--clearenv"]
    return [*command, "--", "sleep", life(seconds)]


def folder_source(folder: Path, store: Path, *, root: bool) -> str:
    """Where the spawner reaches a folder below the folder of all sandboxes."""
    return staged("sandboxes") + f"/{folder.relative_to(store)}" if root else str(folder)


def life(seconds: float | None) -> str:
    """How long a keeper stays: a server that never comes back leaves nothing for ever behind."""
    return "infinity" if seconds is None else str(math.ceil(seconds) + _GRACE_SECONDS)
