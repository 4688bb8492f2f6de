"""From records to lines: a trace or an episode as one line of JSON, by the table of values.

A record is encoded when it is taken, so that changing it later changes nothing that is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from prime_async import values
from prime_async.errors import ValueEncodingError
from prime_async.traces.errors import TracesValueError, adopted

__all__ = ["EncodedRecord", "SupportsToRecord", "TraceRecord", "encode_record"]


@runtime_checkable
class SupportsToRecord(Protocol):
    """A trace or an episode in memory that can say what its JSON record is."""

    def to_record(self) -> Mapping[str, Any]:
        """Return the record."""
        ...


TraceRecord = Mapping[str, Any] | SupportsToRecord
"""What counts as a record; dataclasses, Structs and pydantic models do as well."""


class EncodedRecord(NamedTuple):
    """One record, ready to be sent.

    Attributes:
        line: its JSON with a line feed.
        non_finite: how many rewards and metrics were NaN or infinite and are null now.
    """

    line: bytes
    non_finite: int


def encode_record(value: Any, *, strict: bool = False, root: str = "record") -> EncodedRecord:
    """Write one trace or episode as a line, by the table in ``docs/values.md``.

    Args:
        value: a mapping, an object with ``to_record()``, a dataclass, a Struct or a pydantic model.
        strict: refuse NaN and infinities, which become null otherwise.
        root: how errors call the record, such as ``records[7]``.

    Raises:
        TracesValueError: it cannot be written (``TypeError`` and ``ValueError`` too); ``.path``
            says where.
    """
    record = _record_of(value, root)
    try:
        data = values.encode(record, root=root, strict=strict)
    except ValueEncodingError as error:
        raise adopted(error) from error.__cause__
    if data[:1] != b"{":
        raise _refusal(value, root, "must be a mapping or implement to_record()")
    return EncodedRecord(data + b"\n", sum(map(_non_finite, _with_members(record))))


def _record_of(value: Any, root: str) -> Any:
    """Ask an object for its record; anything else is its own."""
    if isinstance(value, Mapping) or not callable(make := getattr(value, "to_record", None)):
        return value
    try:
        record = make()
    except Exception as error:  # the object's own method failed: a fault of this record alone
        raise _refusal(
            value, root, f"cannot be read: to_record(): {type(error).__name__}: {error}"
        ) from error
    if not isinstance(record, Mapping):
        raise _refusal(value, root, "is no record: to_record() must return a mapping")
    return record


def _refusal(value: Any, root: str, what: str) -> TracesValueError:
    kind = type(value).__qualname__
    return TracesValueError(
        f"{root} ({kind}) {what}",
        path=root,
        value_type=kind,
        hint="a record is a dict, a dataclass, a msgspec Struct or a pydantic model",
    )


def _with_members(record: Any) -> Iterator[Any]:
    """A trace; or an episode and the traces in it."""
    yield record
    members = _entry(record, "traces")
    if isinstance(members, list | tuple):
        yield from members


def _non_finite(record: Any) -> int:
    """Count the scores of one trace that are written as null although they are numbers."""
    found = len(values.nonfinite_scores(record))
    rewards = _entry(record, "rewards")
    if isinstance(rewards, Mapping):
        scores = {name: _entry(entry, "score") for name, entry in rewards.items()}
        found += len(values.nonfinite_scores({"metrics": scores}))
    return found


def _entry(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)
