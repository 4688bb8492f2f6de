"""The system calls the spawner needs and Python 3.11 does not have."""

from __future__ import annotations

import ctypes
import os
from functools import cache

__all__ = [
    "CLONE_NEWALL",
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "bind",
    "drop_bounding_set",
    "drop_capabilities",
    "hide_memory",
    "make_mounts_private",
    "mount_tmpfs",
    "no_new_privileges",
    "set_subreaper",
    "setns",
    "unshare",
]

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_NEWALL = (
    CLONE_NEWUSER
    | CLONE_NEWNS
    | CLONE_NEWPID
    | CLONE_NEWNET
    | CLONE_NEWIPC
    | CLONE_NEWUTS
    | CLONE_NEWCGROUP
)

_MS_REC = 0x4000
_MS_BIND = 0x1000
_MS_PRIVATE = 1 << 18
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_HIGHEST_CAPABILITY = 63


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, second: int, third: int = 0) -> int:
    zero = ctypes.c_ulong(0)
    result: int = _libc().prctl(option, ctypes.c_ulong(second), ctypes.c_ulong(third), zero, zero)
    return result


def setns(descriptor: int, kinds: int) -> None:
    """Enter namespaces of the process behind a pidfd, all at once."""
    _checked(_libc().setns(descriptor, kinds), "setns")


def unshare(kinds: int) -> None:
    """Leave the namespaces of these kinds for new ones."""
    _checked(_libc().unshare(kinds), "unshare")


def make_mounts_private() -> None:
    """Keep what is mounted here from the rest of the machine, and the other way round."""
    _checked(_libc().mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount private")


def mount_tmpfs(target: str) -> None:
    """Cover a directory with an empty one that only this namespace sees."""
    result = _libc().mount(b"tmpfs", os.fsencode(target), b"tmpfs", 0, b"mode=0755,size=1m")
    _checked(result, "mount tmpfs")


def bind(source: int, target: str) -> None:
    """Show what an open descriptor stands for at another path."""
    path = f"/proc/self/fd/{source}".encode()
    result = _libc().mount(path, os.fsencode(target), None, _MS_BIND | _MS_REC, None)
    _checked(result, "mount bind")


def set_subreaper() -> None:
    """Become the parent of what our children leave behind."""
    _checked(_prctl(_PR_SET_CHILD_SUBREAPER, 1), "prctl subreaper")


def hide_memory() -> None:
    """Keep others of the same user from reading or tracing this process and what it forks.

    Between fork and exec a copy of the spawner, with secrets of other sandboxes in its memory, is
    a process of the sandbox; `execve` makes it an ordinary one.
    """
    _checked(_prctl(_PR_SET_DUMPABLE, 0), "prctl dumpable")


def no_new_privileges() -> None:
    """Make setuid programs ordinary ones, for good."""
    _checked(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "prctl no_new_privs")


def drop_bounding_set() -> None:
    """No program started from here on can get a capability back."""
    for number in range(_HIGHEST_CAPABILITY + 1):
        if _prctl(_PR_CAPBSET_DROP, number) != 0:
            return  # Beyond the last one this kernel has, or none may be dropped by who has none.


def drop_capabilities() -> None:
    """Give up every capability."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    _checked(_libc().capset(ctypes.byref(header), ctypes.byref(data)), "capset")
