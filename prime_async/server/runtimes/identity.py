"""Whom the sandboxes of this server run as. Blocks: reads the kernel's own files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from prime_async.server.runtimes.rooted import Identity
from prime_async.server.runtimes.users import HIGHEST_ID

__all__ = ["Owner", "find_owner", "map_ids"]

_BASE = 1_900_000_000
"""First of 65,536 ids that no distribution gives to users, containers or services."""

_NOBODY = 65534


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns sandboxes on the host.

    Attributes:
        identity: the host's ids of root inside.
        many: whether a sandbox has 65,536 ids (only root can give them), or that of root alone.
    """

    identity: Identity
    many: bool

    @property
    def changes(self) -> bool:
        """Whether the spawner has to become somebody else."""
        return os.geteuid() == 0


def find_owner() -> Owner:
    """For an ordinary user: the user. For root: ids of nobody else."""
    if os.geteuid() != 0:
        return Owner(Identity(os.geteuid(), os.getegid()), many=False)
    # A root that lives in a user namespace itself has only some ids.
    for first, count in _ranges():
        for base in (_BASE, first + count - HIGHEST_ID - 1):
            if base > HIGHEST_ID and first <= base and base + HIGHEST_ID < first + count:
                return Owner(Identity(base, base), many=True)
    return Owner(Identity(_NOBODY, _NOBODY), many=False)


def _ranges() -> list[tuple[int, int]]:
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    return [(int(first), int(count)) for first, _, count in map(str.split, lines)]


def map_ids(identity: Identity, pid: int) -> None:
    """Give the user namespace of a process its ids: 0 to 65535 from the identity on."""
    count = HIGHEST_ID + 1
    for name, base in (("uid_map", identity.uid), ("gid_map", identity.gid)):
        Path(f"/proc/{pid}/{name}").write_text(f"0 {base} {count}\n")
