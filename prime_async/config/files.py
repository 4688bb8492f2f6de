"""JSON files that may hold a key: read with exact positions, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from prime_async.errors import ConfigError

__all__ = [
    "PrimePaths",
    "fault",
    "home_directory",
    "key_position",
    "make_private_directory",
    "read_object",
    "write_object",
]

_LARGEST = 1 << 20
_RESET_HINT = "repair the file, or run 'prime-async config reset', which keeps a copy of it"
_REPAIR_HINT = "repair or delete the file"


@dataclass(frozen=True, slots=True)
class PrimePaths:
    """The folder ``~/.prime`` and what is in it.

    Attributes:
        home: the user's home directory.
    """

    home: Path

    @property
    def root(self) -> Path:
        """The folder all files live in."""
        return self.home / ".prime"

    @property
    def config(self) -> Path:
        """The current settings."""
        return self.root / "config.json"

    @property
    def lock(self) -> Path:
        """The lock that writers of settings and contexts take; it is empty and stays."""
        return self.root / "config.lock"

    @property
    def environments(self) -> Path:
        """The folder of the named contexts."""
        return self.root / "environments"

    def context(self, name: str) -> Path:
        """The file of one named context; ``name`` has been checked."""
        return self.environments / f"{name}.json"


def home_directory(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the user's home directory, or None where the system knows none.

    Raises:
        ConfigError: ``HOME`` is set to something that is not an absolute path.
    """
    environ = os.environ if environ is None else environ
    variable = "USERPROFILE" if os.name == "nt" else "HOME"
    named = environ.get(variable, "").strip()
    if named:
        if not Path(named).is_absolute():
            raise ConfigError(
                f"{variable} is {named!r}, which is not an absolute path",
                hint=f"set {variable} to your home directory",
            )
        return Path(named)
    return _home_from_accounts()


def _home_from_accounts() -> Path | None:
    try:
        import pwd
    except ImportError:
        return None
    try:
        found = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
    return Path(found) if found.startswith("/") else None


def fault(
    path: Path, what: str, *, line: int | None = None, column: int | None = None
) -> ConfigError:
    """Make the error for a file that cannot be used: path, place, reason and cure in one line."""
    place = "".join(f":{number}" for number in (line, column) if number is not None)
    hint = _RESET_HINT if path.name == "config.json" else _REPAIR_HINT
    return ConfigError(f"{path}{place}: {what}", path=path, line=line, column=column, hint=hint)


def read_object(path: Path) -> dict[str, Any] | None:
    """Read a JSON object, or return None where the file does not exist.

    Raises:
        ConfigError: the file is empty, not UTF-8, not JSON, not an object, not a regular file or
            not readable.
    """
    raw = _read_bytes(path)
    if raw is None:
        return None
    text = _decode(path, raw)
    if not text.strip():
        raise fault(path, "the file is empty, a JSON object was expected")
    value = _parse(path, text)
    if not isinstance(value, dict):
        raise fault(
            path, f"a JSON object was expected, this is a {_json_type(value)}", line=1, column=1
        )
    return value


def _read_bytes(path: Path) -> bytes | None:
    # O_NONBLOCK: a FIFO in place of the file must give an error, not a wait without end.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise fault(path, _reason(error)) from error
    try:
        return _read_regular(path, descriptor)
    except OSError as error:
        raise fault(path, _reason(error)) from error
    finally:
        os.close(descriptor)


def _read_regular(path: Path, descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise fault(path, "this is not a regular file")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        raw = file.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise fault(path, f"the file is larger than {_LARGEST >> 20} MiB")
    return raw


def _reason(error: OSError) -> str:
    if isinstance(error, NotADirectoryError):
        return "a parent of this path is not a directory"
    return f"cannot be read: {error.strerror or error}"


def _decode(path: Path, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.start
    # Raised outside the handler here and below: those exceptions carry the whole text, keys
    # included.
    line_start = raw.rfind(b"\n", 0, start) + 1
    column = len(raw[line_start:start].decode("utf-8", "replace")) + 1
    raise fault(path, "not UTF-8 text", line=raw.count(b"\n", 0, start) + 1, column=column)


def _parse(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = fault(path, f"not valid JSON: {error.msg}", line=error.lineno, column=error.colno)
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or brackets nested by the thousand.
        problem = fault(path, f"not usable JSON: {error}")
    raise problem


def _json_type(value: Any) -> str:
    names = {list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def key_position(path: Path, key: str) -> tuple[int, int] | None:
    """Return line and column of a top-level key in a JSON object file, or None."""
    raw = _read_bytes(path)
    if raw is None:
        return None
    text = _decode(path, raw)
    found = _last_key(text, key)
    if found is None:
        return None
    return text.count("\n", 0, found) + 1, found - text.rfind("\n", 0, found)


def _last_key(text: str, wanted: str) -> int | None:
    """Walk the top level of a valid object; of a repeated key the last one counts."""
    decoder = json.JSONDecoder()
    found = None
    index = _skip_space(text, 0) + 1
    while (index := _skip_space(text, index)) < len(text) and text[index] == '"':
        start = index
        name, index = decoder.raw_decode(text, index)
        index = _skip_space(text, _skip_space(text, index) + 1)
        _, index = decoder.raw_decode(text, index)
        index = _skip_space(text, index) + 1
        if name == wanted:
            found = start
    return found


def _skip_space(text: str, index: int) -> int:
    while index < len(text) and text[index] in " \t\r\n":
        index += 1
    return index


def make_private_directory(path: Path) -> None:
    """Create a directory that only its owner can enter; one that exists is left as it is.

    Raises:
        ConfigError: it cannot be created, for example because the home directory does not exist.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError as error:
        if not path.is_dir():
            raise ConfigError(
                f"{path} is in the way: a directory was expected", path=path
            ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot create the directory {path}: {error.strerror}",
            path=path,
            hint="set HOME to a directory that exists and that you may write to",
        ) from error


def write_object(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file in one step: readers see the old file or the new one, whatever happens.

    The new file is 0600 from its creation on and is on disk before it takes the name. Call with the
    lock held.

    Raises:
        ConfigError: the file cannot be written; the old one is untouched.
    """
    # A link set up by the user (dotfiles) stays a link: the file it points to is replaced.
    target = Path(os.path.realpath(path))
    _remove_leftovers(target)
    fresh = target.with_name(f".{target.name}.{os.urandom(8).hex()}.tmp")
    text = json.dumps(dict(value), indent=2, ensure_ascii=False) + "\n"
    try:
        _write_durably(fresh, text.encode())
        fresh.replace(target)
        _sync_directory(target.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> NoReturn:
    raise ConfigError(
        f"cannot write {path}: {error.strerror or error}; the file is as it was",
        path=path,
        hint="check free space and permissions",
    ) from error


def _write_durably(path: Path, data: bytes) -> None:
    flags = (
        os.O_WRONLY
        | os.O_CREAT
        | os.O_EXCL
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_BINARY", 0)
    )
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(target: Path) -> None:
    """Delete what killed writers left: it may hold a key, and the lock says nobody is writing."""
    for leftover in target.parent.glob(f".{target.name}.*.tmp"):
        with contextlib.suppress(OSError):
            leftover.unlink()
