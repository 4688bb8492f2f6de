"""Root's one chance to prepare, and then never being root again."""

from __future__ import annotations

import os

from prime_async.server.runtimes.spawner import kernel

__all__ = ["take_place"]

STAGE = "/run"
"""Covered, in the spawner's own mounts, by what the sandbox user shall reach under short paths."""


def take_place(uid: int | None, gid: int, binds: list[list[str]]) -> None:
    """Become the parent of all orphans, and, if root, somebody else for good.

    Args:
        uid, gid: whom to become; only root can. None stays who it is: without isolation.
        binds: folders (path, name) to show below :data:`STAGE`: the sandbox user cannot reach what
            is below a closed home.

    Raises:
        OSError: it did not work; the caller must not go on.
    """
    kernel.set_subreaper()
    if uid is not None and os.geteuid() == 0:
        if uid == 0:
            raise PermissionError(1, "a sandbox never runs as root")
        _show(binds)
        kernel.drop_bounding_set()
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    kernel.hide_memory()


def _show(binds: list[list[str]]) -> None:
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.make_mounts_private()
    # Opened first: the source may lie below what is about to be covered.
    opened = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path, _ in binds]
    kernel.mount_tmpfs(STAGE)
    for descriptor, (_, name) in zip(opened, binds, strict=True):
        target = f"{STAGE}/{name}"
        os.mkdir(target, 0o755)  # noqa: PTH102  # pathlib is 2 MB more here
        kernel.bind(descriptor, target)
        os.close(descriptor)
