"""What is in a directory of a sandbox: describing, listing, walking, deleting. Blocks."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from prime_async.server.runtimes.errors import SandboxFileError
from prime_async.server.runtimes.rooted import Root

__all__ = ["FileInfo", "FileWindow", "describe", "list_directory", "remove", "walk"]

Kind = Literal["file", "directory", "symlink", "other"]

MAX_ENTRIES = 100_000
_DEEPEST = 512
_KINDS: dict[int, Kind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
}


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a path of a sandbox names.

    Attributes:
        path: absolute, as seen inside.
        kind: what it is.
        size: bytes.
        mode: permission bits.
        modified: seconds since the epoch.
        target: where a link points to.
        sha256: digest of the content, where it was computed on the way.
    """

    path: str
    kind: Kind
    size: int
    mode: int
    modified: float
    target: str | None = None
    sha256: str | None = None

    @property
    def name(self) -> str:
        """Last part of the path."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True, slots=True)
class FileWindow:
    """Part of a file.

    Attributes:
        data: the bytes.
        total: size of the whole file.
        offset: where the bytes start in it.
    """

    data: bytes
    total: int
    offset: int

    @property
    def truncated(self) -> bool:
        """Whether the file goes on behind the window, or begins before it."""
        return len(self.data) < self.total


def describe(descriptor: int, path: str) -> FileInfo:
    """Describe what an open descriptor stands for."""
    found = os.fstat(descriptor)
    target = os.readlink("", dir_fd=descriptor) if stat.S_ISLNK(found.st_mode) else None
    return _info(found, path, target)


def _info(found: os.stat_result, path: str, target: str | None = None) -> FileInfo:
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    mode = stat.S_IMODE(found.st_mode)
    return FileInfo(path, kind, found.st_size, mode, found.st_mtime, target)


def list_directory(root: Root, path: str) -> list[FileInfo]:
    """Describe what is in a directory, by name."""
    directory = root.open_directory(path)
    try:
        return _describe_all(directory, root.absolute(path))
    finally:
        os.close(directory)


def _describe_all(directory: int, path: str) -> list[FileInfo]:
    names = os.listdir(directory)
    if len(names) > MAX_ENTRIES:
        raise SandboxFileError(
            f"a directory of {len(names)} entries; at most {MAX_ENTRIES} are listed",
            path=path,
            code="too_large",
        )
    found = []
    for name in sorted(names):
        # What vanishes between listing and looking is not there.
        with suppress(FileNotFoundError):
            found.append(_look(directory, name, path))
    return found


def _look(directory: int, name: str, path: str) -> FileInfo:
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    target = os.readlink(name, dir_fd=directory) if stat.S_ISLNK(found.st_mode) else None
    return _info(found, str(PurePosixPath(path, name)), target)


def walk(root: Root, path: str, depth: int) -> Generator[FileInfo, None, None]:
    """Describe everything below a directory, a directory before what is in it."""
    start = root.open_directory(path)
    stack = [(start, _describe_all(start, root.absolute(path))[::-1])]
    try:
        while stack:
            directory, entries = stack[-1]
            if not entries:
                os.close(directory)
                stack.pop()
                continue
            entry = entries.pop()
            yield entry
            if entry.kind == "directory":
                if len(stack) >= min(depth, _DEEPEST):
                    raise SandboxFileError(
                        "the tree is too deep", path=entry.path, code="too_large"
                    )
                _descend(root, stack, entry)
    finally:
        for directory, _ in stack:
            os.close(directory)


def _descend(root: Root, stack: list[tuple[int, list[FileInfo]]], entry: FileInfo) -> None:
    try:
        inner = root.enter(stack[-1][0], entry.name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # Gone, or something else by now, or not for the sandbox's eyes.
    try:
        stack.append((inner, _describe_all(inner, entry.path)[::-1]))
    except BaseException:
        os.close(inner)
        raise


def remove(root: Root, path: str, recursive: bool) -> None:
    """Delete what a path names; the last name is not followed."""
    above, name = root.parent(path)
    try:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=above)
            return
        if recursive:
            _empty(root, above, name, path, 0)
        os.rmdir(name, dir_fd=above)
    finally:
        os.close(above)


def _empty(root: Root, above: int, name: str, path: str, level: int) -> None:
    if level >= _DEEPEST:
        raise SandboxFileError("the tree is too deep to delete", path=path, code="too_large")
    directory = root.enter(above, name)
    try:
        for inner in os.listdir(directory):  # noqa: PTH208  # by descriptor
            _remove_one(root, directory, inner, path, level)
    finally:
        os.close(directory)


def _remove_one(root: Root, directory: int, name: str, path: str, level: int) -> None:
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            _empty(root, directory, name, path, level + 1)
            os.rmdir(name, dir_fd=directory)
        else:
            os.unlink(name, dir_fd=directory)
