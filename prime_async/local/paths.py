"""`LocalPaths`: the files of the embedded platform."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from prime_async.config import PrimePaths, home_directory
from prime_async.errors import LocalPlatformError

__all__ = ["LocalPaths", "private_directory"]

# Linux takes 108 bytes with the closing zero, macOS 104.
_LONGEST_SOCKET_PATH = 100


@dataclass(frozen=True, slots=True)
class LocalPaths:
    """Where the embedded platform of one home directory keeps things.

    Attributes:
        home: the home directory.
    """

    home: Path

    @classmethod
    def find(cls, home: Path | None = None) -> LocalPaths:
        """Return the paths for a home directory, by default the user's.

        Raises:
            LocalPlatformError: the system knows no home directory.
        """
        found = home if home is not None else home_directory()
        if found is None:
            raise LocalPlatformError("no home directory is known", hint="set HOME")
        return cls(found)

    @property
    def prime(self) -> PrimePaths:
        """The folder around it, with settings and contexts."""
        return PrimePaths(self.home)

    @property
    def root(self) -> Path:
        """Folder of database, log and state; only its owner can enter it."""
        return self.prime.root / "local"

    @property
    def state(self) -> Path:
        """What the daemon says about itself; the port in it outlives the daemon."""
        return self.root / "state.json"

    @property
    def start_lock(self) -> Path:
        """Held by whoever is starting or stopping the daemon."""
        return self.root / "start.lock"

    @property
    def server_lock(self) -> Path:
        """Held by the daemon all its life."""
        return self.root / "server.lock"

    @property
    def log(self) -> Path:
        """The daemon's log; older parts have ``.1`` and so on appended."""
        return self.root / "server.log"

    @property
    def key_file(self) -> Path:
        """The generated API key."""
        return self.root / "api_key"

    def make(self) -> None:
        """Create the folders.

        Raises:
            ConfigError, LocalPlatformError: a folder cannot be made or is not private.
        """
        from prime_async.config.files import make_private_directory

        make_private_directory(self.prime.root)
        make_private_directory(self.root)
        if os.name == "posix":
            # A folder made by hand may be open to others; the database in it must not be.
            self.root.chmod(0o700)

    def socket(self) -> Path | None:
        """Return where the unix socket goes, its folder made; None where there can be none.

        It is in ``root``, or, as the path of a socket must be short, in a private folder of the
        runtime or temporary directory under a name made from the path of ``root``.
        """
        if os.name != "posix":
            return None
        usual = self.root / "api.sock"
        if len(os.fsencode(usual)) <= _LONGEST_SOCKET_PATH:
            return usual
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:24] + ".sock"
        for base in _short_bases():
            path = base / f"prime-async-{os.getuid()}" / name
            if len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH and private_directory(path.parent):
                return path
        return None


def _short_bases() -> list[Path]:
    named = [os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"]  # noqa: S108  # guarded by private_directory
    return [Path(base) for base in named if base.startswith("/")]


def private_directory(path: Path) -> bool:
    """Make a directory 0700; False when it cannot be made, or one is there that others could use.

    In a shared temporary directory somebody else may have put it, or a link, in our way.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass  # Judged below, as a new one is.
    except OSError:
        return False
    found = path.lstat()
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.getuid()
        and stat.S_IMODE(found.st_mode) & 0o077 == 0
    )
