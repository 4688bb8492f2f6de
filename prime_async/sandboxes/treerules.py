"""What of a folder travels, and what never does; the same for sending and for unpacking.

Plain files and folders travel. So does a link that is relative and stays inside the tree. Every
other link, and everything that is none of these (pipes, sockets, devices), is left out and listed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import PurePosixPath

__all__ = ["SkippedEntry", "TreeTransfer", "link_problem", "name_problem"]


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """Something that was left out: its path in the tree, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class TreeTransfer:
    """What a transfer of a folder did.

    Attributes:
        files, directories, links: how many of each.
        size: bytes of the files.
        skipped: what was left out.
    """

    files: int = 0
    directories: int = 0
    links: int = 0
    size: int = 0
    skipped: list[SkippedEntry] = field(default_factory=list)

    def reset(self) -> None:
        """Count from the beginning."""
        self.files = self.directories = self.links = self.size = 0
        self.skipped.clear()

    def skip(self, path: str, reason: str) -> None:
        """Note that something is left out."""
        self.skipped.append(SkippedEntry(path, reason))


def link_problem(path: str, target: str) -> str | None:
    """Say why a link may not travel; None when it may.

    Args:
        path: where it is, relative to the tree's root.
        target: what it holds.
    """
    if not target or "\0" in target:
        return "a link without a target"
    if target.startswith("/"):
        return "a link with an absolute target"
    inside = os.path.normpath(PurePosixPath(path).parent / target)
    if inside == ".." or inside.startswith("../"):
        return "a link that leaves the tree"
    return None


def name_problem(path: str) -> str | None:
    """Say why a path of an archive may not be unpacked; None when it may."""
    if path.startswith("/"):
        return "an absolute path"
    if ".." in PurePosixPath(path).parts:
        return "a path with .."
    if "\0" in path or not path:
        return "a path that no file can have"
    return None
