"""Who a command runs as: names and numbers of the sandbox's own `/etc/passwd`.

The file is the sandbox's to write, so it is read as text and only numbers come out of it; the C
library, which loads plug-ins for this, is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from prime_async.server.runtimes.errors import CommandRefusedError, SandboxFileError
from prime_async.server.runtimes.files import SandboxFiles

__all__ = ["HIGHEST_ID", "ROOT", "User", "find_user"]

HIGHEST_ID = 65535
_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class User:
    """A user inside.

    Attributes:
        groups: further groups, or None to leave them as they are.
    """

    name: str
    uid: int
    gid: int
    home: str
    groups: tuple[int, ...] | None

    def environment(self) -> dict[str, str]:
        """What a login would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


ROOT = User("root", 0, 0, "/root", None)


async def find_user(files: SandboxFiles, wanted: str | None, *, many: bool) -> User:
    """Find a user by name, number, or ``user:group``-less forms thereof.

    Args:
        many: whether the sandbox has more ids than that of root.

    Raises:
        CommandRefusedError: there is no such user, or not in this sandbox.
    """
    if wanted is None or wanted in {"root", "0"}:
        return ROOT if not many else User("root", 0, 0, "/root", ())
    if not wanted or "\0" in wanted or ":" in wanted:
        raise CommandRefusedError(f"{wanted!r} is not the name of a user", field="user")
    if not many:
        raise CommandRefusedError(
            f"this sandbox has one user, root: there is no {wanted!r}",
            field="user",
            hint="a server that runs as root gives its sandboxes more users",
        )
    for entry in await _lines(files, "/etc/passwd", 7):
        if wanted in (entry[0], entry[2]):
            uid, gid = _number(entry[2]), _number(entry[3])
            if uid is not None and gid is not None:
                return User(entry[0], uid, gid, entry[5] or "/", await _groups(files, entry[0]))
    raise CommandRefusedError(f"there is no user {wanted!r} in /etc/passwd", field="user")


async def _groups(files: SandboxFiles, name: str) -> tuple[int, ...]:
    found = []
    for entry in await _lines(files, "/etc/group", 4):
        number = _number(entry[2])
        if number is not None and name in entry[3].split(","):
            found.append(number)
    return tuple(found[:64])


async def _lines(files: SandboxFiles, path: str, fields: int) -> list[list[str]]:
    try:
        window = await files.read(path, limit=_LIMIT)
    except SandboxFileError:
        return []
    lines = window.data.decode("utf-8", "replace").splitlines()
    return [parts for line in lines if len(parts := line.split(":")) == fields]


def _number(text: str) -> int | None:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        return None
    return number if (number := int(text)) <= HIGHEST_ID else None
