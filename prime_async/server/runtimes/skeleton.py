"""What all sandboxes of a host share of `/etc`, gathered once into one folder. Blocks.

One read-only bind brings it into a sandbox, and links in the sandbox's own `/etc` point into it:
starting a sandbox neither copies these files nor mounts them one by one. The folder is named after
its content, so that sandboxes of an earlier server keep theirs.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from prime_async.server.runtimes.rooted import Identity

__all__ = ["HOSTNAME", "MOUNT_POINT", "make_skeleton", "python_program"]


MOUNT_POINT = "/.prime"
"""Where it is in a sandbox; ``bin`` in it has the interpreter as `python` and `python3`."""

HOSTNAME = "sandbox"

_OF_THE_HOST = (
    "alternatives", "bash.bashrc", "ca-certificates", "crypto-policies", "debian_version", "fonts",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "mime.types", "pki", "profile", "protocols",
    "services", "shells", "ssl/certs", "ssl/openssl.cnf", "timezone",
)  # fmt: skip
_OURS = {
    "hostname": f"{HOSTNAME}\n",
    "hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost ip6-localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "resolv.conf": (
        "# Names are resolved by the egress proxy (http_proxy); there is no other way out.\n"
        "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
    ),
}
_LARGEST = 4 * 1024 * 1024


def make_skeleton(store: Path, identity: Identity) -> Path:
    """Make it, unless it is there: ``shared`` to be bound, ``links`` to be linked into `/etc`.

    A second name for a link costs a quarter of a new one, and nobody can write to a link.
    """
    names = tuple(name for name in _OF_THE_HOST if Path("/etc", name).exists())
    folder = store / f".skeleton-{_fingerprint(names)}"
    if not folder.exists():
        temporary = store / f".skeleton-{secrets.token_hex(8)}.new"
        _fill(temporary, names, identity)
        try:
            temporary.rename(folder)
        except OSError:
            # Another server of this folder was faster, with the same content.
            shutil.rmtree(temporary)
    return folder


def python_program() -> str:
    """The interpreter this server runs on, by its own path."""
    prefix = Path(sys.base_prefix).resolve()
    named = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(named if named.exists() else Path(sys.executable).resolve())


def _fingerprint(names: tuple[str, ...]) -> str:
    digest = hashlib.sha256(f"{python_program()}\0{_OURS}".encode())
    for name in names:
        for path in _walk(Path("/etc", name)):
            found = path.lstat()
            digest.update(f"{path}\0{found.st_mtime_ns}\0{found.st_size}\0".encode())
    return digest.hexdigest()[:16]


def _walk(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        for inner in sorted(path.iterdir()):
            yield from _walk(inner)


def _fill(folder: Path, names: tuple[str, ...], identity: Identity) -> None:
    shared = folder / "shared"
    (shared / "bin").mkdir(parents=True)
    (shared / "etc" / "ssl").mkdir(parents=True)
    for name in ("python", "python3"):
        (shared / "bin" / name).symlink_to(python_program())
    for name in names:
        _copy(Path("/etc", name), shared / "etc" / name)
    for name, text in _OURS.items():
        (shared / "etc" / name).write_text(text)
    _make_links(folder / "links", shared / "etc", identity)
    for path in _walk(folder):
        if not path.is_symlink():
            # Whatever this server's umask says.
            path.chmod(0o755 if path.is_dir() else 0o644)


def _make_links(links: Path, etc: Path, identity: Identity) -> None:
    links.mkdir()
    targets = {path.name: f"{MOUNT_POINT}/etc/{path.name}" for path in etc.iterdir()}
    targets["os-release"] = "../usr/lib/os-release"
    localtime = Path("/etc/localtime")
    if localtime.is_symlink():
        targets["localtime"] = str(localtime.readlink())
    for name, target in targets.items():
        (links / name).symlink_to(target)
        if os.geteuid() == 0:
            # The kernel lets only its owner give a link a second name.
            os.chown(links / name, identity.uid, identity.gid, follow_symlinks=False)


def _copy(source: Path, target: Path) -> None:
    """Copy what everybody may read; links as links, so that they point into `/usr` as before."""
    if source.is_symlink():
        target.symlink_to(source.readlink())
    elif source.is_dir():
        target.mkdir()
        for inner in source.iterdir():
            _copy(inner, target / inner.name)
    elif source.is_file() and source.stat().st_mode & 0o004 and source.stat().st_size <= _LARGEST:
        shutil.copyfile(source, target)
