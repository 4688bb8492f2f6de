"""Where things are mounted in a private root: real folders, never links that were put there.

A root that is filled from a checkpoint, or that gets volumes, has names in it that its user chose.
Whoever mounts on a path resolves it on the host, so every part of it has to be a folder of the
root itself before that. Blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from prime_async.server.runtimes.errors import SandboxStartError
from prime_async.server.runtimes.rooted import Identity

__all__ = ["make_mount_points"]

_MODE = 0o755
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_mount_points(
    root: Path, targets: Iterable[str], identity: Identity, *, replace: bool
) -> None:
    """Make every part of some absolute paths a folder in a root that nothing runs in yet.

    Args:
        replace: whether what is in the way (a link, a file) gives way; it is the platform's place.

    Raises:
        SandboxStartError: something is in the way.
        OSError: the disk is full, or the path cannot be.
    """
    here = os.open(root, _FOLDER)
    try:
        # A server that is root looks through folders that their owner has closed.
        for target in targets:
            _make(here, PurePosixPath(target), identity, replace)
    finally:
        os.close(here)


def _make(root: int, target: PurePosixPath, identity: Identity, replace: bool) -> None:
    above = os.dup(root)
    try:
        for name in target.parts[1:]:
            inner = _enter(above, name, target, identity, replace)
            os.close(above)
            above = inner
    finally:
        os.close(above)


def _enter(above: int, name: str, target: PurePosixPath, identity: Identity, replace: bool) -> int:
    try:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        _new_folder(above, name, identity)
        return os.open(name, _FOLDER, dir_fd=above)
    if not stat.S_ISDIR(found.st_mode):
        if not replace:
            what = "a link" if stat.S_ISLNK(found.st_mode) else "a file"
            raise SandboxStartError(f"nothing can be mounted at {target}: {name} is {what}")
        os.unlink(name, dir_fd=above)
        _new_folder(above, name, identity)
    return os.open(name, _FOLDER, dir_fd=above)


def _new_folder(above: int, name: str, identity: Identity) -> None:
    os.mkdir(name, _MODE, dir_fd=above)
    os.chmod(name, _MODE, dir_fd=above)  # Whatever this server's umask says.
    if os.geteuid() == 0:
        os.chown(name, identity.uid, identity.gid, dir_fd=above, follow_symlinks=False)
