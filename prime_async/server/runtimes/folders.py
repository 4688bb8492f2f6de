"""The folder of a sandbox on the host: made, measured, removed. Blocks.

``root`` is the sandbox's private root; ``meta`` is the server's, and nobody else's: what a later
server has to know again, secrets among it, in a file of mode 0600.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from prime_async.server.runtimes.egress_policy import EgressPolicy
from prime_async.server.runtimes.rooted import Identity

__all__ = [
    "Kept",
    "disk_usage",
    "make_folder",
    "make_store",
    "read_kept",
    "remove_folder",
    "write_kept",
]

_DEEPEST = 256
_BLOCK = 512
_ENTRY_BYTES = 1024
"""What a name costs at least, so that empty files fill a disk too."""

_RM = "/bin/rm"
_CHMOD = "/bin/chmod"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept for a later server beside the record."""

    environment: dict[str, str]
    allow: list[str] | None = None
    deny: list[str] | None = None

    @property
    def policy(self) -> EgressPolicy:
        """The rules it was started with."""
        return EgressPolicy(
            allow=None if self.allow is None else tuple(self.allow),
            deny=None if self.deny is None else tuple(self.deny),
        )

    @classmethod
    def of(cls, environment: Mapping[str, str], policy: EgressPolicy) -> Kept:
        """Put together what is to be kept."""
        return cls(
            environment=dict(environment),
            allow=None if policy.allow is None else list(policy.allow),
            deny=None if policy.deny is None else list(policy.deny),
        )


def make_store(folder: Path, identity: Identity) -> None:
    """Make the folder of all sandboxes: the sandbox's user may pass through it, nobody else."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _open_for(folder, identity)


def make_folder(folder: Path, identity: Identity) -> None:
    """Make the folder of one sandbox."""
    folder.mkdir(mode=0o700)
    _open_for(folder, identity)
    (folder / "meta").mkdir(mode=0o700)


def _open_for(folder: Path, identity: Identity) -> None:
    if os.geteuid() == 0 and identity.gid != 0:
        os.chown(folder, 0, identity.gid)
        folder.chmod(0o710)


def write_kept(folder: Path, kept: Kept) -> None:
    """Write what is to be kept, readable for nobody else from the first moment, and in one step."""
    path = folder / "meta" / "kept.json"
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(kept))
    temporary.rename(path)


def read_kept(folder: Path) -> Kept:
    """Read it again.

    Raises:
        OSError, msgspec.MsgspecError: it is not there, or not whole.
    """
    return msgspec.json.decode((folder / "meta" / "kept.json").read_bytes(), type=Kept)


def remove_folder(folder: Path) -> None:
    """Remove a sandbox's folder, however deep and closed what was put in there.

    Raises:
        OSError: something of it is left.
    """
    if not folder.exists():
        return
    _run(_RM, "-rf", "--", str(folder))
    if folder.exists():
        # Folders that their owner has closed to itself; root does not see them.
        _run(_CHMOD, "-R", "u+rwX", "--", str(folder))
        _run(_RM, "-rf", "--", str(folder))
    if folder.exists():
        raise OSError(39, f"the folder {folder} could not be removed")


def _run(*command: str) -> None:
    subprocess.run(  # noqa: S603  # programs by their absolute path, a path behind "--"
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def disk_usage(folder: Path, limit: int) -> int:
    """Bytes on disk below a folder; stops counting soon after ``limit``.

    Never follows a link, so that a race cannot lead it elsewhere; what is deeper than 256 folders
    is not counted (the floor under the machine's free space holds for it).
    """
    start = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    used = 0
    stack = [(start, os.listdir(start))]  # noqa: PTH208  # by descriptor
    try:
        while stack and used <= limit:
            directory, names = stack[-1]
            if not names:
                os.close(stack.pop()[0])
                continue
            used += _count(stack, directory, names.pop())
    finally:
        for directory, _ in stack:
            os.close(directory)
    return used


def _count(stack: list[tuple[int, list[str]]], directory: int, name: str) -> int:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) and len(stack) < _DEEPEST:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(name, flags, dir_fd=directory)
            stack.append((inner, os.listdir(inner)))  # noqa: PTH208  # by descriptor
    except OSError:
        return 0
    # A file with several names is counted at each of them, divided among them.
    links = max(1, found.st_nlink) if stat.S_ISREG(found.st_mode) else 1
    return max(_ENTRY_BYTES, found.st_blocks * _BLOCK // links)
