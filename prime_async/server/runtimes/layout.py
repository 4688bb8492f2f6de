"""What a sandbox finds around it: its private root on disk, and the host's parts it sees read-only.

Everything private is one folder, so that it can be measured, copied and deleted as one. Of the host
it sees `/usr` (with the links or folders beside it), the interpreter this server runs on at its own
absolute path (an interpreter that is moved loses its libraries), and the few things of `/etc` that
programs in `/usr` need (`skeleton.py`). All functions block.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prime_async.server.runtimes.mountpoints import make_mount_points
from prime_async.server.runtimes.rooted import Identity
from prime_async.server.runtimes.skeleton import MOUNT_POINT, make_skeleton
from prime_async.server.runtimes.snapshots import restore_snapshot

__all__ = [
    "PROXY_PORT",
    "HostParts",
    "base_environment",
    "build_root",
    "find_parts",
    "restore_root",
]

PROXY_PORT = 41080
"""Port of the egress proxy on the sandbox's own loopback."""

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BESIDE_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = (
    ("app", 0o755), ("dev", 0o755), ("etc", 0o755), ("home", 0o755), ("proc", 0o755),
    ("root", 0o700), ("run", 0o755), ("tmp", 0o1777), ("usr", 0o755), ("var", 0o755),
    ("workspace", 0o755), (MOUNT_POINT.lstrip("/"), 0o755),
)  # fmt: skip

_USERS = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUPS = """\
root:x:0:
daemon:x:1:
tty:x:5:
www-data:x:33:
user:x:1000:
nogroup:x:65534:
"""


@dataclass(frozen=True, slots=True)
class HostParts:
    """What sandboxes see of this host.

    Attributes:
        prefix: the interpreter's own folder, seen at the same path; None when it is in `/usr`.
        skeleton: what is shared of `/etc`.
        etc: names of the links into it.
        beside: links beside `/usr`, and their targets.
        folders: names beside `/usr` that are folders.
    """

    prefix: Path | None
    skeleton: Path
    etc: tuple[str, ...]
    beside: tuple[tuple[str, str], ...]
    folders: tuple[str, ...]

    def binds(self, prefix_source: str, skeleton_source: str) -> Iterator[tuple[str, str]]:
        """Source and target of everything that is bound read-only.

        Args:
            prefix_source, skeleton_source: where the two can be reached.
        """
        yield "/usr", "/usr"
        for name in self.folders:
            yield f"/{name}", f"/{name}"
        yield skeleton_source, MOUNT_POINT
        if self.prefix is not None:
            yield prefix_source, str(self.prefix)


def find_parts(store: Path, identity: Identity) -> HostParts:
    """Look at this host once.

    Args:
        store: the folder of all sandboxes, for what they share.
        identity: whom sandboxes run as.
    """
    prefix = Path(sys.base_prefix).resolve()
    skeleton = make_skeleton(store, identity)
    beside = [(name, Path("/", name)) for name in _BESIDE_USR]
    return HostParts(
        prefix=None if prefix.is_relative_to("/usr") else prefix,
        skeleton=skeleton,
        etc=tuple(sorted(path.name for path in (skeleton / "links").iterdir())),
        beside=tuple((name, str(path.readlink())) for name, path in beside if path.is_symlink()),
        folders=tuple(name for name, path in beside if path.is_dir() and not path.is_symlink()),
    )


def build_root(root: Path, parts: HostParts, identity: Identity) -> None:
    """Make the private root of a sandbox, owned by the sandbox.

    Raises:
        OSError: the disk is full, or the folder is there already.
    """
    root.mkdir()
    root.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(root, identity.uid, identity.gid)
    # By descriptors: the sandbox's user may not be able to walk here from the host's root.
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    here, links = os.open(root, flags), os.open(parts.skeleton / "links", flags)
    try:
        with identity.taken():
            _fill(here, parts, links)
    finally:
        os.close(here)
        os.close(links)


def restore_root(root: Path, archive: Path, parts: HostParts, identity: Identity) -> None:
    """Make the private root of a sandbox from the archive of another one's.

    Raises:
        SnapshotError, OSError: the archive is not whole, or the disk is full.
    """
    root.mkdir()
    root.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(root, identity.uid, identity.gid)
    restore_snapshot(archive, root)
    # Of this platform, whatever the user made of them, and of the host as it is today.
    targets = [target for _, target in parts.binds("", "")]
    make_mount_points(root, [*targets, "/proc", "/dev"], identity, replace=True)


def _fill(root: int, parts: HostParts, links: int) -> None:
    # As few calls as can be: most of a start is spent on the disk.
    for name, mode in _FOLDERS:
        _make(root, name, mode)
    for name in parts.folders:
        _make(root, name, 0o755)
    for name, target in (*parts.beside, ("var/tmp", "../tmp")):
        os.symlink(target, name, dir_fd=root)
    if parts.prefix is not None:
        for path in [*reversed(parts.prefix.parents), parts.prefix][1:]:
            _make(root, str(path.relative_to("/")), 0o755)
    for name in parts.etc:
        os.link(name, f"etc/{name}", src_dir_fd=links, dst_dir_fd=root, follow_symlinks=False)
    for name, text in (("passwd", _USERS), ("group", _GROUPS)):
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(f"etc/{name}", flags, 0o644, dir_fd=root)
        os.write(descriptor, text.encode())
        os.fchmod(descriptor, 0o644)
        os.close(descriptor)


def _make(root: int, path: str, mode: int) -> None:
    try:
        os.mkdir(path, mode, dir_fd=root)
    except FileExistsError:
        return
    if os.stat(path, dir_fd=root).st_mode & 0o7777 != mode:
        os.chmod(path, mode, dir_fd=root)  # A narrow umask, or a bit that mkdir leaves out.


def base_environment(parts: HostParts) -> dict[str, str]:
    """What every command finds in its environment, before the user's own variables."""
    tools = [f"{MOUNT_POINT}/bin"]
    if parts.prefix is not None:
        tools.append(str(parts.prefix / "bin"))
    return {
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LOGNAME": "root",
        "PATH": ":".join(["/root/.local/bin", *tools, _SYSTEM_PATH]),
        "SHELL": "/bin/bash",
        # Who unpacks is root by name but may not give files away.
        "TAR_OPTIONS": "--no-same-owner",
        "USER": "root",
        **_proxy_environment(),
    }


def _proxy_environment() -> dict[str, str]:
    address = f"http://127.0.0.1:{PROXY_PORT}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    pairs = dict.fromkeys(names, address) | {"no_proxy": "localhost,127.0.0.1,::1"}
    return pairs | {name.upper(): value for name, value in pairs.items()}
