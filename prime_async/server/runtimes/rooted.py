"""Opening what is inside a sandbox so that no name, link or race leads out of it.

The only module that opens sandbox files. Every name is resolved by the kernel (`openat2`) below a
descriptor of the sandbox's own root: absolute links and ``..`` end there, links of procfs are not
followed. A file is first opened without touching it (``O_PATH``), judged, and only then opened for
use, so that a pipe or device put in our way is never opened at all. A server that runs as root does
all this under the file-system identity of the sandbox: whatever it is led to, it may do no more
there than the sandbox itself. Everything here blocks: `files.py` calls it in threads.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

from prime_async.server.runtimes.errors import FileCode, SandboxFileError

__all__ = ["MAX_PATH", "Identity", "Root", "fault", "openat2_works"]

MAX_PATH = 4095

_OPENAT2 = 437  # the same number on every architecture
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_IN_ROOT = 0x10
_TRIES = 16
_PROC = 0x9FA0

# File systems that are the kernel speaking: a regular file there is anything but one.
_NOT_FILES = frozenset(
    {
        _PROC,
        0x62656572,  # sysfs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0x1CD1,  # devpts
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0xCAFE4A11,  # bpf
        0x19800202,  # mqueue
        0x6E736673,  # nsfs
    }
)


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


_CODES: dict[int, FileCode] = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_directory",
    errno.EISDIR: "is_directory",
    errno.EEXIST: "exists",
    errno.ENOTEMPTY: "not_empty",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EROFS: "denied",
    errno.ELOOP: "bad_path",
    errno.ENAMETOOLONG: "bad_path",
    errno.EINVAL: "bad_path",
    errno.EXDEV: "bad_path",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the file system shall see.

    Attributes:
        uid, gid: on the host.
    """

    uid: int
    gid: int

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Act as this identity, in this thread only. A no-op for who is not root.

        The kernel takes the right to override file permissions away with it, and gives it back.
        """
        if os.geteuid() != 0:
            yield
            return
        _libc().setfsgid(self.gid)
        _libc().setfsuid(self.uid)
        try:
            yield
        finally:
            _libc().setfsuid(0)
            _libc().setfsgid(0)


def fault(error: OSError, path: str) -> SandboxFileError:
    """What the sandbox's user is told about a failed system call."""
    code = _CODES.get(error.errno or 0, "io")
    return SandboxFileError(error.strerror or "the call failed", path=path, code=code)


class Root:
    """The root of one sandbox.

    Args:
        descriptor: an open directory, owned by this object from now on.
        identity: whom the file system shall see.
        working_dir: what relative paths start from.
        own_processes: whether its processes have a procfs of their own; else the host's is theirs.
    """

    def __init__(
        self,
        descriptor: int,
        identity: Identity,
        working_dir: str = "/app",
        *,
        own_processes: bool = True,
    ) -> None:
        self._own_processes = own_processes
        self._descriptor = descriptor
        self._identity = identity
        self._working_dir = working_dir

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        identity: Identity,
        working_dir: str,
        *,
        own_processes: bool = True,
    ) -> Root:
        """Open a directory as a root; for a process, ``/proc/PID/root``."""
        descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return cls(descriptor, identity, working_dir, own_processes=own_processes)

    @property
    def identity(self) -> Identity:
        """Whom the file system shall see."""
        return self._identity

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def absolute(self, path: str) -> str:
        """Return the path as seen inside, without ``.`` and doubled slashes.

        Raises:
            SandboxFileError: it is empty, too long, or holds a NUL.
        """
        if not path or "\0" in path:
            raise SandboxFileError(
                "a path must not be empty or hold a NUL", path=path, code="bad_path"
            )
        if len(os.fsencode(path)) > MAX_PATH:
            raise SandboxFileError("the path is too long", path=path[:80] + "…", code="bad_path")
        return str(PurePosixPath("/", self._working_dir, path))

    def reach(self, path: str, *, follow: bool = True) -> int:
        """Return an ``O_PATH`` descriptor of what a path names; nothing is opened by that."""
        flags = os.O_PATH | (0 if follow else os.O_NOFOLLOW)
        return self._openat2(self._descriptor, self.absolute(path), flags, _IN_ROOT)

    def open_file(self, path: str) -> int:
        """Open a regular file for reading.

        Raises:
            SandboxFileError, OSError: there is none, or it is something else.
        """
        reached = self.reach(path)
        try:
            require_file(reached, path)
            return os.open(f"/proc/self/fd/{reached}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        finally:
            os.close(reached)

    def open_processes(self) -> int:
        """Open the procfs of its processes, as a start for the kernel's notes on them.

        Nothing else is accepted in its place; below it, only the kernel has made names.

        Raises:
            OSError: there is no procfs in this root.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY
        if not self._own_processes:
            return os.open("/proc", flags | os.O_CLOEXEC)
        found = self._openat2(self._descriptor, "/proc", flags, _IN_ROOT | _NO_SYMLINKS)
        if _file_system(found) != _PROC:
            os.close(found)
            raise FileNotFoundError(errno.ENOENT, "there is no procfs", "/proc")
        return found

    def open_in(self, directory: int, path: str) -> int:
        """Open a regular file in an open directory for reading, never through a link.

        One call less than :meth:`open_file`, where many small files are read.

        Raises:
            SandboxFileError, OSError: there is none, or it is something else.
        """
        descriptor = self._openat2(directory, path, os.O_RDONLY, _IN_ROOT | _NO_SYMLINKS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise SandboxFileError("it is not a regular file", path=path, code="not_regular")
        return descriptor

    def open_directory(self, path: str, *, follow: bool = True) -> int:
        """Open a directory for reading its entries and as a start for names in it."""
        flags = os.O_RDONLY | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW)
        descriptor = self._openat2(self._descriptor, self.absolute(path), flags, _IN_ROOT)
        return _kept(descriptor, path)

    def enter(self, directory: int, name: str) -> int:
        """Open a directory in an open directory, by a single name, never through a link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        return self._openat2(directory, name, flags, _IN_ROOT | _NO_SYMLINKS)

    def parent(self, path: str, *, make: bool = False) -> tuple[int, str]:
        """Open the directory a path is in, and return it with the last name.

        Args:
            make: create missing directories on the way.
        """
        whole = PurePosixPath(self.absolute(path))
        if not whole.name or whole.name == "..":
            raise SandboxFileError("the path does not end in a name", path=path, code="bad_path")
        folder = str(whole.parent)
        try:
            return self.open_directory(folder), whole.name
        except FileNotFoundError:
            if not make:
                raise
        self.make_directories(folder)
        return self.open_directory(folder), whole.name

    def make_directories(self, path: str, mode: int = 0o755) -> bool:
        """Create a directory and those it is in; say whether there was anything to create."""
        whole = PurePosixPath(self.absolute(path))
        made = False
        for part in [*reversed(whole.parents), whole][1:]:
            try:
                os.close(self.open_directory(str(part)))
                continue
            except FileNotFoundError:
                pass  # This is the one to create.
            above = self.open_directory(str(part.parent))
            try:
                os.mkdir(part.name, mode, dir_fd=above)
                made = True
            except FileExistsError:
                # Made by somebody else just now, or a dangling link: the next step will tell.
                pass
            finally:
                os.close(above)
        os.close(self.open_directory(str(whole)))
        return made

    def _openat2(self, start: int, path: str, flags: int, resolve: int) -> int:
        how = _How(flags | os.O_CLOEXEC | os.O_NONBLOCK, 0, resolve | _NO_MAGICLINKS)
        if flags & os.O_PATH:
            how.flags &= ~os.O_NONBLOCK  # openat2 refuses what open would ignore
        encoded = os.fsencode(path)
        for _ in range(_TRIES):
            found: int = _libc().syscall(
                _OPENAT2, start, encoded, ctypes.byref(how), ctypes.sizeof(how)
            )
            if found >= 0:
                return found
            number = ctypes.get_errno()
            # EAGAIN: somebody renamed something while the kernel looked; it wants to be asked anew.
            if number not in {errno.EAGAIN, errno.EINTR}:
                break
        raise OSError(number, os.strerror(number), path)


def require_file(reached: int, path: str) -> os.stat_result:
    """Refuse what is not a plain file on a file system that holds files."""
    found = os.fstat(reached)
    if stat.S_ISDIR(found.st_mode):
        raise SandboxFileError("it is a directory", path=path, code="is_directory")
    if not stat.S_ISREG(found.st_mode):
        raise SandboxFileError("it is not a regular file", path=path, code="not_regular")
    _require_file_system(reached, path)
    return found


def _kept(descriptor: int, path: str) -> int:
    try:
        _require_file_system(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_file_system(descriptor: int, path: str) -> None:
    if _file_system(descriptor) in _NOT_FILES:
        raise SandboxFileError(
            "it belongs to the kernel, not to the sandbox",
            path=path,
            code="not_regular",
            hint="run a command inside to read it",
        )


def _file_system(descriptor: int) -> int:
    # struct statfs begins with f_type, a long; 256 bytes hold the rest everywhere.
    buffer = (ctypes.c_long * 32)()
    if _libc().fstatfs(descriptor, ctypes.byref(buffer)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(buffer[0]) & 0xFFFFFFFF


def openat2_works() -> bool:
    """Whether this kernel has `openat2` (Linux 5.6), and lets us use it."""
    if platform.system() != "Linux":
        return False
    how = _How(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGICLINKS)
    found: int = _libc().syscall(_OPENAT2, -100, b"/", ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        return False
    os.close(found)
    return True
