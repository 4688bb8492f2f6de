"""How Python values are written as JSON: one table for evaluations, traces and the command line.

``docs/values.md`` publishes the table. The common case is one call of msgspec's C encoder; a value
it does not know goes through :func:`_foreign`, and only a record that fails altogether is rebuilt
in Python, which finds the path of the fault or mends what has a rule (keys that are not text, lone
surrogates).

NaN and infinities become ``null``, natively and without a scan. numpy, torch, pandas and pydantic
objects are known by their methods; none of these packages is imported.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import math
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from pathlib import PurePath
from typing import Any, NoReturn
from uuid import UUID

import msgspec

from prime_async.errors import ValueEncodingError

__all__ = [
    "MAX_DEPTH",
    "encode",
    "encode_plain_records",
    "encode_record",
    "nonfinite_scores",
    "refuse_nonfinite",
    "scores_are_finite",
]

MAX_DEPTH = 100
"""Nesting that is certain to be written; deeper values may be refused."""


class _NoRuleError(TypeError):
    """The table has no entry for a value; msgspec lets it through from the hook."""


_ENCODE_FAULTS = (TypeError, ValueError, OverflowError, RecursionError)
"""What msgspec raises for a value it cannot write (UnicodeEncodeError is a ValueError)."""


def encode(value: Any, *, root: str = "value") -> bytes:
    """Write a value as JSON by the table.

    Args:
        value: anything the table in ``docs/values.md`` names.
        root: how error messages call the value, such as ``samples[7]``.

    Raises:
        ValueEncodingError: a value outside the table, a cycle, or two keys of one object with the
            same text; ``.path`` says where.
    """
    with contextlib.suppress(Exception):  # whatever a user's object raises is named below, by path
        data = _encoder.encode(value)
        if _plain_keys(value):
            return data
    # The slow way either mends the value or names the path of the fault.
    return _encoder.encode(_Rebuild(root).value(value, []))


def encode_record(value: Any, *, root: str = "record") -> bytes:
    """Write one record: a mapping, a dataclass, a Struct or a pydantic model.

    Raises:
        ValueEncodingError: as :func:`encode`, and when the value is not written as an object.
    """
    data = encode(value, root=root)
    if data[:1] != b"{":
        raise ValueEncodingError(
            f"{root} is {_a(value)}, not a JSON object",
            path=root,
            value_type=type(value).__name__,
            hint="a record is a dict, a dataclass, a msgspec Struct or a pydantic model",
        )
    return data


def encode_plain_records(records: list[Any]) -> bytes | None:
    """Write dicts as JSON objects joined by commas, with one call of the encoder.

    Returns None when there is anything about them that needs a closer look, record by record: a
    record that is no dict, a value outside the table, a key that is not text.
    """
    if {*map(type, records)} != {dict}:
        return None
    try:
        data = _encoder.encode(records)
    except Exception:  # whatever it is, the closer look names it by path
        return None
    return data[1:-1] if _plain_keys(records) else None


def scores_are_finite(record: Any) -> bool:
    """Say quickly that the scores hold no NaN or infinity; False may be a false alarm."""
    reward = record.get("reward")
    if reward.__class__ is float and reward - reward != 0.0:
        return False
    metrics = record.get("metrics")
    if metrics.__class__ is not dict:
        return reward.__class__ in _SIMPLE_SCORES
    try:
        total = sum(metrics.values())
    except TypeError:
        return False
    return bool(total - total == 0.0) and reward.__class__ in _SIMPLE_SCORES


_SIMPLE_SCORES = (float, int, type(None), bool, str)


def nonfinite_scores(record: Any) -> list[str]:
    """Name the scores that are NaN or infinite: ``reward`` and entries of ``metrics``."""
    if record.__class__ is not dict:
        return []
    found = ["reward"] if _nonfinite(record.get("reward")) else []
    metrics = record.get("metrics")
    if metrics.__class__ is dict:
        found += [f"metrics.{name}" for name, value in metrics.items() if _nonfinite(value)]
    return found


def refuse_nonfinite(value: Any, *, root: str = "value") -> None:
    """Walk a value that is about to be written and refuse NaN and infinities.

    Raises:
        ValueEncodingError: names the path of the first one.
    """
    plain = msgspec.to_builtins(
        value, enc_hook=_foreign, builtin_types=(datetime.datetime, UUID, Decimal)
    )
    stack: list[tuple[str, Any]] = [(root, plain)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueEncodingError(
                f"{path} is {item}, which JSON cannot hold",
                path=path,
                value_type="float",
                hint="drop strict=True to write it as null",
            )
        if isinstance(item, dict):
            stack += [(f"{path}.{key}", child) for key, child in reversed(item.items())]
        elif isinstance(item, list):
            stack += [(f"{path}[{i}]", child) for i, child in reversed(list(enumerate(item)))]


def _nonfinite(value: Any) -> bool:
    if value.__class__ is float:
        return not math.isfinite(value)
    if value is None or value.__class__ in (int, bool, str, list, dict):
        return False
    try:
        return not math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _plain_keys(value: Any) -> bool:
    """Say whether every key of every dict inside a value is text.

    The JSON encoder writes the keys 1 and "1" of one dict as two equal keys without a word. An
    ordering msgpack encoder refuses keys that are not text, in C: a Python walk costs five times as
    much. False may be a false alarm (sets of mixed types, integers beyond 64 bits). Guarded by
    test_FR34_keys_that_are_not_text.
    """
    try:
        _key_check.encode(value)
    except Exception:  # the closer look finds out what it was
        return False
    return True


def _foreign(value: Any) -> Any:
    """Turn a value msgspec does not know into one it does (the part of the table that is not
    native).
    """
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return None if value != value else value.isoformat()
    return _foreign_object(value)


def _foreign_object(value: Any) -> Any:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "M" or kind == "m":
        return _numpy_time(value)
    if callable(tolist := getattr(value, "tolist", None)):
        return tolist()
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set | range) or type(value).__name__ in (
        "deque",
        "dict_keys",
        "dict_values",
    ):
        return list(value)
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    raise _NoRuleError(f"{type(value).__qualname__} has no rule")


def _numpy_time(value: Any) -> Any:
    text = value.astype(str).tolist()
    return None if text == "NaT" else text


_encoder = msgspec.json.Encoder(enc_hook=_foreign)
_key_check = msgspec.msgpack.Encoder(enc_hook=_foreign, order="deterministic")


class _Rebuild:
    """Rebuilds a value from plain types, mending what has a rule and naming the path of what has
    none.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._open: set[int] = set()

    def value(self, value: Any, path: list[str]) -> Any:
        if isinstance(value, str):
            return _scrubbed(value)
        if value is None or isinstance(
            value, bool | bytes | bytearray | memoryview | UUID | Decimal
        ):
            return value
        if value.__class__ in (
            int,
            float,
            datetime.datetime,
            datetime.date,
            datetime.time,
            datetime.timedelta,
        ):
            return value
        return self._container(value, path)

    def _container(self, value: Any, path: list[str]) -> Any:
        if id(value) in self._open:
            self._fail(value, path, "refers to itself")
        if len(path) > MAX_DEPTH:
            self._fail(value, [*path[:6], "…"], f"is nested deeper than {MAX_DEPTH} levels")
        self._open.add(id(value))
        try:
            return self._opened(value, path)
        finally:
            self._open.discard(id(value))

    def _opened(self, value: Any, path: list[str]) -> Any:
        if isinstance(value, Mapping):
            return self._object(value, path)
        if isinstance(value, list | tuple | Set | range):
            return self._array(value, path)
        try:
            native = (
                msgspec.structs.asdict(value)
                if isinstance(value, msgspec.Struct)
                else _fields(value)
            )
            return self.value(native if native is not None else _foreign(value), path)
        except _NoRuleError:
            self._fail(value, path, "has no entry in the value table")
        except ValueEncodingError:
            raise
        except (
            Exception
        ) as error:  # the object's own method failed: a fault of the record, not of the push
            self._fail(value, path, f"cannot be read: {type(error).__name__}: {error}")

    def _object(self, value: Mapping[Any, Any], path: list[str]) -> dict[str, Any]:
        rebuilt: dict[str, Any] = {}
        for key, child in value.items():
            text = self._key(key, path)
            if text in rebuilt:
                what = f"stands for two keys that are both written {text!r}"
                self._fail(key, [*path, f".{text}"], what)
            rebuilt[text] = self.value(child, [*path, f".{text}"])
        return rebuilt

    def _array(self, value: Iterable[Any], path: list[str]) -> list[Any]:
        return [self.value(child, [*path, f"[{i}]"]) for i, child in enumerate(value)]

    def _key(self, key: Any, path: list[str]) -> str:
        if isinstance(key, enum.Enum):
            key = key.value
        if isinstance(key, str):
            return _scrubbed(key)
        try:
            text = _encoder.encode(key).decode()
        except _ENCODE_FAULTS:
            where = [*path, f".<{type(key).__name__}>"]
            self._fail(key, where, "is a key that cannot be written as text")
        return str(msgspec.json.decode(text)) if text.startswith('"') else text

    def _fail(self, value: Any, path: list[str], what: str) -> NoReturn:
        where = self._root + "".join(path)
        raise ValueEncodingError(
            f"{where} ({type(value).__qualname__}) {what}",
            path=where,
            value_type=type(value).__qualname__,
            hint="docs/values.md lists what can be written",
        )


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a dataclass or attrs instance, None for anything else."""
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is None:
        attributes = getattr(type(value), "__attrs_attrs__", None)
        names = None if attributes is None else [attribute.name for attribute in attributes]
    if names is None:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _scrubbed(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by U+FFFD; pairs are joined."""
    if text.isascii():
        return str.__str__(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
