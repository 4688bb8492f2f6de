"""From what users log to JSON: taken apart from the user's objects at once, stamped with the run,
checked by the table of values.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from prime_async import values
from prime_async.errors import ValueEncodingError
from prime_async.runs.options import Redact, RunKind
from prime_async.runs.queue import Lane
from prime_async.traces.encoding import encode_record
from prime_async.traces.lines import MAX_LINE_BYTES

__all__ = ["Encoded", "RecordEncoder", "RefusedRecordError", "finite_only"]

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_SCALARS = (str, int, float, type(None))
_REDACTED = b"[redacted]"


class RefusedRecordError(Exception):
    """A record cannot be logged; the message says which and why."""


class Encoded(NamedTuple):
    """A record as it will travel.

    Attributes:
        lane: where it goes.
        data: its JSON; lines of traces end with a line feed.
        nonfinite: NaN and infinities among its scores, which are null or left out.
    """

    lane: Lane
    data: bytes
    nonfinite: int = 0


class RecordEncoder:
    """Encodes the records of one run. From any thread.

    Args:
        run_id, kind: stamped on every trace.
        redact: called with each record first.
        secret: text that never leaves, such as the key of the platform; "" is none.
    """

    def __init__(self, run_id: str, kind: RunKind, redact: Redact | None, secret: str) -> None:
        self._stamp = {"id": run_id, "type": kind.value}
        self._redact = redact
        self._secret = secret.encode()

    def trace(self, record: Any, name: str) -> Encoded | None:
        """Encode a trace, or an episode: a record that has ``traces``. None when the user's
        redaction leaves nothing of it.

        Args:
            name: what messages call it, such as ``records[3]``.

        Raises:
            RefusedRecordError: it is no object, holds what cannot be written, or is too large.
        """
        record = self._redacted(record, name)
        if record is None:
            return None
        fields = _fields(record, name)
        stamped = {**fields, "run": _run_stamp(fields.get("run"), self._stamp)}
        lane = Lane.EPISODE if "traces" in fields else Lane.TRACE
        if lane is Lane.EPISODE:
            stamped["traces"] = self._stamped_members(fields["traces"], stamped["run"], name)
        try:
            line, nonfinite = encode_record(stamped, root=name)
        except ValueEncodingError as error:
            raise RefusedRecordError(error.message) from error
        if len(line) > MAX_LINE_BYTES:
            raise RefusedRecordError(
                f"{name} has {len(line):,} bytes, more than the {MAX_LINE_BYTES:,} a line may have"
            )
        return Encoded(lane, self._without_secret(line), nonfinite)

    def sample(self, record: Any, name: str) -> Encoded | None:
        """Encode a row of results; raises as `trace`."""
        record = self._redacted(record, name)
        if record is None:
            return None
        fields = _fields(record, name)
        return Encoded(
            Lane.SAMPLE, self._encode(fields, name), len(values.nonfinite_scores(fields))
        )

    def metrics(self, row: Any, step: int | None) -> Encoded | None:
        """Encode a row of metrics, without what is not finite; raises as `trace`."""
        row = self._redacted(row, "metrics")
        if row is None:
            return None
        dropped: list[str] = []
        clean = finite_only(_fields(row, "metrics"), dropped)
        if step is not None:
            clean.setdefault("step", step)
        clean.setdefault("_timestamp", time.time())
        return Encoded(Lane.METRIC, self._encode(clean, "metrics"), len(dropped))

    def distributions(self, found: Any, step: int | None) -> Encoded:
        """Encode distributions, ``{name: numbers}``; raises as `trace`."""
        body = {"step": step, "distributions": _fields(found, "distributions")}
        return Encoded(Lane.DISTRIBUTION, self._encode(body, "distributions"))

    def _redacted(self, record: Any, name: str) -> Any:
        if self._redact is None:
            return record
        try:
            return self._redact(record)
        except Exception as error:  # what could not be redacted does not leave
            raise RefusedRecordError(f"{name}: redact failed: {error!r}") from error

    def _stamped_members(self, members: Any, envelope: Mapping[str, Any], name: str) -> Any:
        if isinstance(members, msgspec.Raw):
            members = _decoded(_MEMBERS, members, name)
        if not isinstance(members, list | tuple):
            return members
        return [self._stamped_member(member, envelope, name) for member in members]

    def _stamped_member(self, member: Any, envelope: Mapping[str, Any], name: str) -> Any:
        """Stamp a trace inside an episode; what is no trace is for the platform to refuse."""
        if isinstance(member, _SCALARS):
            return member
        fields = _fields(member, f"{name}.traces")
        return {**fields, "run": _run_stamp(fields.get("run", envelope), self._stamp)}

    def _encode(self, fields: Mapping[str, Any], name: str) -> bytes:
        try:
            return self._without_secret(values.encode_record(fields, root=name))
        except ValueEncodingError as error:
            raise RefusedRecordError(error.message) from error

    def _without_secret(self, data: bytes) -> bytes:
        return data.replace(self._secret, _REDACTED) if self._secret else data


_FINITE = frozenset({bool, int, str, type(None)})


def finite_only(fields: Mapping[str, Any], dropped: list[str], path: str = "") -> dict[str, Any]:
    """Copy a mapping without NaN, infinities and the mappings that are empty then.

    Args:
        dropped: gets the paths that are left out.
    """
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        # Nearly all of them are plain numbers, perhaps ten thousand: they take no look at a table.
        if (type(value) is float and math.isfinite(value)) or type(value) in _FINITE:
            kept[name] = value
            continue
        where = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping):
            value = finite_only(value, dropped, where)
            if not value:
                continue
        elif values.nonfinite_scores({"reward": value}):
            dropped.append(where)
            continue
        kept[name] = value
    return kept


def _run_stamp(before: Any, stamp: Mapping[str, str]) -> dict[str, Any]:
    """Keep name and work that a record brings; id and type are the run's."""
    if isinstance(before, msgspec.Raw):
        before = msgspec.json.decode(before)
    return {**(before if isinstance(before, Mapping) else {}), **stamp}


def _fields(record: Any, name: str) -> Mapping[str, Any]:
    """Return the top level of a record: a mapping, what ``to_record()`` says, or what JSON makes of
    any other object or already is.
    """
    ask = getattr(record, "to_record", None)
    try:
        if not isinstance(record, Mapping) and callable(ask):
            record = ask()
    except Exception as error:  # the record's own method
        raise RefusedRecordError(f"{name}: to_record() failed: {error!r}") from error
    if isinstance(record, Mapping):
        return record
    try:
        data = record if isinstance(record, bytes) else values.encode_record(record, root=name)
    except ValueEncodingError as error:
        raise RefusedRecordError(error.message) from error
    fields: Mapping[str, Any] = _decoded(_FIELDS, data, name)
    return fields


def _decoded(decoder: msgspec.json.Decoder[Any], data: Any, name: str) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise RefusedRecordError(f"{name} is no record: {error}") from error
