"""`Record`: the base of every object that comes from the wire.

A record is a typed msgspec Struct and, at the same time, a ``Mapping`` over the JSON object as it arrived: attributes
give the typed view, keys give everything the platform sent, fields unknown to this version included.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping
from typing import Any, Self

import msgspec

__all__ = ["Record"]


class _RecordMeta(msgspec.StructMeta, ABCMeta):
    """Lets a Struct be a Mapping for type checkers and ``isinstance`` alike."""


class Record(msgspec.Struct, Mapping[str, Any], metaclass=_RecordMeta, kw_only=True, dict=True, eq=False):
    """A typed view of one JSON object; a read-only mapping of the object itself.

    ``record.name`` is typed; ``record["name"]`` and ``record.get("anything")`` read the object as sent. Two records, or
    a record and a dict, are equal when their objects are.
    """

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Make the typed view of a decoded JSON object.

        Raises:
            msgspec.ValidationError: a known field has a type the model does not allow; the message names its path.
        """
        record = msgspec.convert(wire, cls, strict=False)
        _attach(record, wire)
        return record

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object: as it arrived, or the fields that are set when the record was made here."""
        wire: dict[str, Any] | None = self.__dict__.get("_wire")
        if wire is None:
            built: dict[str, Any] = msgspec.to_builtins(self)
            wire = {key: value for key, value in built.items() if value is not None}
        return wire

    def __getitem__(self, key: str) -> Any:
        wire = self.to_wire()
        if key in wire:
            return wire[key]
        if key in self.__struct_fields__:
            return getattr(self, key)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_wire())

    def __len__(self) -> int:
        return len(self.to_wire())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return self.to_wire() == other.to_wire()
        return self.to_wire() == other if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable, as a dict is


def _attach(record: Record, wire: Mapping[str, Any]) -> None:
    """Give a record and the records inside it the objects they were made from."""
    record.__dict__["_wire"] = wire
    for name, key in zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True):
        value = getattr(record, name)
        if isinstance(value, Record):
            _attach(value, wire[key])
        elif isinstance(value, list) and value and isinstance(value[0], Record):
            for item, raw in zip(value, wire[key], strict=True):
                _attach(item, raw)
