"""What a sandbox finds around it: its private root on disk, and the host's parts it sees read-only.

Everything private is one folder, so that it can be measured, copied and deleted as one. Of the host
it sees `/usr` (with the links or folders beside it), the interpreter this server runs on at its own
absolute path (an interpreter that is moved loses its libraries), and the few things of `/etc` that
programs in `/usr` need. All functions block.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prime_async.server.runtimes.rooted import Identity

__all__ = ["PROXY_PORT", "WORKING_DIR", "HostParts", "base_environment", "build_root", "find_parts"]

WORKING_DIR = "/app"
"""Where commands start, and where relative paths of files begin."""

PROXY_PORT = 41080
"""Port of the egress proxy on the sandbox's own loopback."""

_TOOLS = "/opt/prime/bin"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BESIDE_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = (
    "app", "workspace", "root", "tmp", "var/tmp", "var/log", "var/cache", "var/lib", "home",
    "opt/prime/bin", "srv", "mnt", "media", "run", "etc", "proc", "dev", "usr",
)  # fmt: skip
_SHARED_ETC = (
    "alternatives", "ca-certificates", "crypto-policies", "fonts", "ld.so.cache", "ld.so.conf.d",
    "pki", "ssl/certs",
)  # fmt: skip
_COPIED_ETC = (
    "bash.bashrc", "debian_version", "ld.so.conf", "mime.types", "profile", "protocols", "services",
    "shells", "ssl/openssl.cnf", "timezone",
)  # fmt: skip
_LARGEST_COPY = 256 * 1024

_USERS = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = """\
root:x:0:
daemon:x:1:
tty:x:5:
www-data:x:33:
user:x:1000:
nogroup:x:65534:
"""
_NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
_RESOLV = (
    "# Names are resolved by the egress proxy (http_proxy); there is no other way out.\n"
    "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
)


@dataclass(frozen=True, slots=True)
class HostParts:
    """What sandboxes see of this host.

    Attributes:
        prefix: the interpreter's own folder, seen at the same path; None when it is in `/usr`.
        python: the interpreter's program.
        links: names beside `/usr` that are links, with their targets.
        folders: names beside `/usr` that are folders (read-only binds).
        shared: paths below `/etc` that are bound read-only.
        copied: small files below `/etc` and their content.
        localtime: where the host's time zone link points to, if it is one.
    """

    prefix: Path | None
    python: str
    links: dict[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    copied: dict[str, bytes] = field(default_factory=dict)
    localtime: str | None = None

    def binds(self, prefix_source: str) -> Iterator[tuple[str, str]]:
        """Source and target of everything that is bound read-only.

        Args:
            prefix_source: where the interpreter's folder can be reached.
        """
        yield "/usr", "/usr"
        for name in self.folders:
            yield f"/{name}", f"/{name}"
        for name in self.shared:
            yield f"/etc/{name}", f"/etc/{name}"
        if self.prefix is not None:
            yield prefix_source, str(self.prefix)


def find_parts() -> HostParts:
    """Look at this host once."""
    prefix = Path(sys.base_prefix).resolve()
    base = getattr(sys, "_base_executable", None) or sys.executable
    inside = prefix.is_relative_to("/usr")
    python = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    localtime = Path("/etc/localtime")
    return HostParts(
        prefix=None if inside else prefix,
        python=str(python if python.exists() else Path(base).resolve()),
        links={
            name: str(Path("/", name).readlink())
            for name in _BESIDE_USR
            if Path("/", name).is_symlink()
        },
        folders=tuple(
            name
            for name in _BESIDE_USR
            if Path("/", name).is_dir() and not Path("/", name).is_symlink()
        ),
        shared=tuple(name for name in _SHARED_ETC if Path("/etc", name).exists()),
        copied={name: data for name in _COPIED_ETC if (data := _small(Path("/etc", name)))},
        localtime=str(localtime.readlink()) if localtime.is_symlink() else None,
    )


def _small(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data if len(data) <= _LARGEST_COPY else None


def build_root(root: Path, parts: HostParts, hostname: str, identity: Identity) -> None:
    """Make the private root of a sandbox, owned by the sandbox.

    Raises:
        OSError: the disk is full, or the folder is there already.
    """
    root.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(root, identity.uid, identity.gid)
    with identity.taken():
        _fill(root, parts, hostname)


def _fill(root: Path, parts: HostParts, hostname: str) -> None:
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "root").chmod(0o700)
    for name, target in parts.links.items():
        (root / name).symlink_to(target)
    for name in parts.folders:
        (root / name).mkdir()
    for name in parts.shared:
        _mount_point(Path("/etc", name), root / "etc" / name)
    if parts.prefix is not None:
        (root / parts.prefix.relative_to("/")).mkdir(parents=True, exist_ok=True)
    _write_etc(root / "etc", parts, hostname)
    for name in ("python", "python3"):
        (root / _TOOLS.lstrip("/") / name).symlink_to(parts.python)


def _mount_point(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _write_etc(etc: Path, parts: HostParts, hostname: str) -> None:
    texts = {
        "passwd": _USERS,
        "group": _GROUP,
        "hosts": f"127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost\n",
        "hostname": hostname + "\n",
        "resolv.conf": _RESOLV,
        "nsswitch.conf": _NSSWITCH,
    }
    for name, text in texts.items():
        (etc / name).write_text(text)
    for name, data in parts.copied.items():
        (etc / name).parent.mkdir(exist_ok=True)
        (etc / name).write_bytes(data)
    (etc / "os-release").symlink_to("../usr/lib/os-release")
    if parts.localtime is not None:
        (etc / "localtime").symlink_to(parts.localtime)


def base_environment(parts: HostParts, *, proxy: bool) -> dict[str, str]:
    """What every command finds in its environment, before the user's own variables."""
    tools = [_TOOLS] if parts.prefix is None else [_TOOLS, str(parts.prefix / "bin")]
    environment = {
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LOGNAME": "root",
        "PATH": ":".join(["/root/.local/bin", *tools, _SYSTEM_PATH]),
        "SHELL": "/bin/bash",
        # Who unpacks is root by name but may not give files away.
        "TAR_OPTIONS": "--no-same-owner",
        "USER": "root",
    }
    return environment | (_proxy_environment() if proxy else {})


def _proxy_environment() -> dict[str, str]:
    address = f"http://127.0.0.1:{PROXY_PORT}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    away = "localhost,127.0.0.1,::1"
    pairs = dict.fromkeys(names, address) | {"no_proxy": away}
    return pairs | {name.upper(): value for name, value in pairs.items()}
