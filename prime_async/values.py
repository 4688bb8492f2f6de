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
import dataclasses
import datetime
import enum
import math
from collections import UserString
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence, Set, ValuesView
from decimal import Decimal
from pathlib import PurePath
from types import MemberDescriptorType
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
    "scores_are_finite",
]

MAX_DEPTH = 100
"""Nesting that is certain to be written; deeper values may be refused."""


class _NoRuleError(TypeError):
    """The table has no entry for a value; msgspec lets it through from the hook."""


def encode(value: Any, *, root: str = "value", strict: bool = False) -> bytes:
    """Write a value as JSON by the table.

    Args:
        value: anything the table in ``docs/values.md`` names.
        root: how error messages call the value, such as ``samples[7]``.
        strict: refuse NaN and infinities, which become null otherwise.

    Raises:
        ValueEncodingError: a value outside the table, a cycle, or two keys of one object with the
            same text; ``.path`` says where.
    """
    if not strict:
        with contextlib.suppress(Exception):  # whatever an object raises is named below, by path
            data = _encoder.encode(value)
            if _plain_keys(value):
                return data
    # The slow way either mends the value or names the path of the fault.
    return _encoder.encode(_Rebuild(root, finite=strict).value(value, []))


def encode_record(value: Any, *, root: str = "record", strict: bool = False) -> bytes:
    """Write one record, which must be a JSON object: a mapping, a dataclass, a Struct or a pydantic
    model.

    Raises:
        ValueEncodingError: as :func:`encode`, and when the value is not written as an object.
    """
    data = encode(value, root=root, strict=strict)
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


def scores_are_finite(record: dict[str, Any]) -> bool:
    """Say quickly that the scores hold no NaN or infinity; False may be a false alarm."""
    reward = record.get("reward")
    if reward.__class__ not in _SIMPLE_SCORES or (
        reward.__class__ is float and reward - reward != 0.0
    ):
        return False
    metrics = record.get("metrics")
    if metrics.__class__ is not dict:
        return metrics is None
    try:
        total = sum(metrics.values())
        return bool(total - total == 0.0)
    except Exception:  # entries that do not add up to one number: the closer look takes each
        return False


_SIMPLE_SCORES = (float, int, type(None), bool, str)


def nonfinite_scores(record: Any) -> list[str]:
    """Name the scores of a record that are NaN or infinite, such as ``metrics.accuracy``."""
    found = ["reward"] if _nonfinite(_entry(record, "reward")) else []
    metrics = _entry(record, "metrics")
    if isinstance(metrics, Mapping):
        found += [f"metrics.{name}" for name, value in metrics.items() if _nonfinite(value)]
    return found


def _entry(record: Any, name: str) -> Any:
    """Read a key of a mapping or an attribute of any other object; None where there is none."""
    if isinstance(record, Mapping):
        return record.get(name)
    return getattr(record, name, None)


def _nonfinite(value: Any) -> bool:
    """Say whether a value is a number that is written as null (a Decimal is written as text)."""
    if value.__class__ is float:
        return not math.isfinite(value)
    if value is None or value.__class__ in _NEVER_NONFINITE or getattr(value, "ndim", None):
        return False
    try:
        return not math.isfinite(value)
    except Exception:  # not a number, or one that cannot say: nothing to count
        return False


_NEVER_NONFINITE = (int, bool, str, list, dict, Decimal)


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
    for kind, plain in _PLAIN_KINDS:
        if isinstance(value, kind):
            return plain(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return None if value != value else value.isoformat()
    return _foreign_object(value)


def _plain_timedelta(value: datetime.timedelta) -> datetime.timedelta:
    return datetime.timedelta(value.days, value.seconds, value.microseconds)


_PLAIN_KINDS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (UserString, str),
    (int, int),
    (float, float),
    (PurePath, str),
    (bytes, bytes),
    (bytearray, bytes),
    (Decimal, Decimal),
    (datetime.timedelta, _plain_timedelta),
)
"""What an instance of a subclass is written as."""


def _foreign_object(value: Any) -> Any:
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if callable(getattr(value, "tolist", None)):
        return _array_value(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, _LISTED):
        return list(value)
    raise _NoRuleError(f"{type(value).__qualname__} has no rule")


_LISTED = (Sequence, Set, KeysView, ValuesView)


_LIST_RESULTS = (list, tuple, bool, int, float, str, bytes, datetime.timedelta, type(None))
"""What arrays and their scalars turn into; anything else would be asked again without end."""


def _array_value(value: Any) -> Any:
    """Turn an array or scalar of numpy, torch or the like into plain values."""
    kind = getattr(value.dtype, "kind", "") if hasattr(value, "dtype") else ""
    if kind == "M":
        return _no_nat(value.astype(str).tolist())
    if kind == "m":
        value = value.astype("timedelta64[us]")
    plain = value.tolist()
    if isinstance(plain, _LIST_RESULTS):
        return plain
    if kind == "f":  # numpy's long double stays what it is
        return float(value)
    raise _NoRuleError(f"{type(value).__qualname__} has no rule")


def _no_nat(texts: Any) -> Any:
    if isinstance(texts, list):
        return [_no_nat(text) for text in texts]
    return None if texts == "NaT" else texts


_encoder = msgspec.json.Encoder(enc_hook=_foreign)
_key_check = msgspec.msgpack.Encoder(enc_hook=_foreign, order="deterministic")


_LEAVES = (bytes, bytearray, memoryview, UUID, Decimal, msgspec.Raw)
_EXACT_LEAVES = frozenset(
    {int, datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)
"""Types the encoder writes by itself and that hold nothing else; subclasses of the latter have a
rule of their own."""

_HINT = "docs/values.md lists what can be written"
_STRICT_HINT = "without strict it is written as null"


class _Rebuild:
    """Rebuilds a value from plain types, mending what has a rule and naming the path of what has
    none.

    Args:
        root: how paths begin.
        finite: refuse NaN and infinities.
    """

    def __init__(self, root: str, *, finite: bool = False) -> None:
        self._root = root
        self._finite = finite
        self._open: set[int] = set()

    def value(self, value: Any, path: list[str]) -> Any:
        if isinstance(value, str):
            return _scrubbed(value)
        if value is None or value.__class__ is bool:
            return value
        if value.__class__ is float:
            return self._float(value, path)
        if value.__class__ in _EXACT_LEAVES or isinstance(value, _LEAVES):
            return self._leaf(value, path)
        return self._container(value, path)

    def _float(self, value: float, path: list[str]) -> float:
        if self._finite and not math.isfinite(value):
            self._fail(value, path, f"is {value}, which JSON cannot hold", _STRICT_HINT)
        return value

    def _leaf(self, value: Any, path: list[str]) -> Any:
        """Make sure that the encoder takes a value: there are integers of too many digits, memory
        in strides and decimals that are no numbers.
        """
        if self._finite and isinstance(value, Decimal) and not value.is_finite():
            self._fail(value, path, f"is {value}, which is no number", _STRICT_HINT)
        try:
            _encoder.encode(value)
        except Exception as error:
            self._fail(value, path, f"cannot be written: {error}")
        return value

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
        try:
            return self._plain(value, path)
        except ValueEncodingError:
            raise
        except _NoRuleError:
            self._fail(value, path, "has no entry in the value table")
        except Exception as error:  # the object's own method failed: a fault of the record
            self._fail(value, path, f"cannot be read: {type(error).__name__}: {error}")

    def _plain(self, value: Any, path: list[str]) -> Any:
        fields = _fields(value)
        if isinstance(fields, dict) or (fields is None and isinstance(value, Mapping)):
            return self._object(value if fields is None else fields, path)
        if fields is not None or isinstance(value, Sequence | Set):
            return self._array(value if fields is None else fields, path)
        return self.value(_foreign(value), path)

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
        except Exception:  # whatever the key's own methods raise: it cannot be written
            where = [*path, f".<{type(key).__name__}>"]
            self._fail(key, where, "is a key that cannot be written as text")
        return str(msgspec.json.decode(text)) if text.startswith('"') else text

    def _fail(self, value: Any, path: list[str], what: str, hint: str = _HINT) -> NoReturn:
        where = self._root + "".join(path)
        raise ValueEncodingError(
            f"{where} ({type(value).__qualname__}) {what}",
            path=where,
            value_type=type(value).__qualname__,
            hint=hint,
        )


def _fields(value: Any) -> dict[str, Any] | list[Any] | None:
    """Return what the encoder would write of a Struct, dataclass or attrs instance; None for
    anything else.
    """
    if isinstance(value, msgspec.Struct):
        return _struct_fields(value)
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        held = getattr(value, "__dict__", {})
        names = [field.name for field in dataclasses.fields(kind)]
        found = {
            name: getattr(value, name) for name in names if name in held or _slotted(kind, name)
        }
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__ if not field.name.startswith("_")]
        found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    else:
        return None
    return {name: item for name, item in found.items() if item is not msgspec.UNSET}


def _slotted(kind: type, name: str) -> bool:
    """Say whether an attribute lives in a slot; a default of the class that no instance holds is
    not written.
    """
    return isinstance(getattr(kind, name, None), MemberDescriptorType)


def _struct_fields(value: msgspec.Struct) -> dict[str, Any] | list[Any]:
    config = value.__struct_config__
    tag = {} if config.tag is None else {config.tag_field or "type": config.tag}
    if config.array_like:
        return [*tag.values(), *(getattr(value, name) for name in value.__struct_fields__)]
    found = {
        field.encode_name: getattr(value, field.name)
        for field in msgspec.structs.fields(value)
        if not (config.omit_defaults and _is_default(getattr(value, field.name), field))
    }
    return tag | {name: item for name, item in found.items() if item is not msgspec.UNSET}


def _is_default(value: Any, field: msgspec.structs.FieldInfo) -> bool:
    if field.default_factory in (list, dict, set):
        return not value and type(value) is field.default_factory
    return value is field.default


def _scrubbed(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by U+FFFD; pairs are joined."""
    if text.isascii():
        return str.__str__(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
