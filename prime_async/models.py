"""`Record`: the base of every object that comes from the wire.

A record is a typed msgspec Struct and, at the same time, a ``Mapping`` over the JSON object as it
arrived: attributes give the typed view, keys give everything the platform sent, fields unknown to
this version included.
"""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, get_args

import msgspec

__all__ = ["Record"]


class _RecordMeta(msgspec.StructMeta, ABCMeta):
    """Lets a Struct be a Mapping for type checkers and ``isinstance`` alike."""


class Record(
    msgspec.Struct, Mapping[str, Any], metaclass=_RecordMeta, kw_only=True, dict=True, eq=False
):
    """A typed view of one JSON object; a read-only mapping of the object itself.

    ``record.name`` is typed; ``record["name"]`` and ``record.get("anything")`` read the object as
    sent. Two records, or a record and a dict, are equal when their objects are.

    Attributes:
        other_names: further spellings of a field on the wire, beside its own in snake_case and
            camelCase.
    """

    other_names: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """Make the typed view of a decoded JSON object.

        Raises:
            msgspec.ValidationError: a known field has a type the model does not allow; the message
                names its path.
        """
        record = msgspec.convert(_respelled(cls, wire), cls, strict=False)
        _attach(record, wire)
        return record

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object: as it arrived, or the fields that are set when the record was
        made here.
        """
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

    def __reduce__(self) -> tuple[Any, ...]:
        # A Struct copies and pickles its fields only, and would lose what only the object holds.
        return _restored, (type(self), msgspec.structs.asdict(self), self.__dict__.get("_wire"))

    def __copy__(self) -> Self:
        return _restored(type(self), msgspec.structs.asdict(self), self.__dict__.get("_wire"))

    __hash__ = None  # type: ignore[assignment]  # mutable, as a dict is


R = TypeVar("R", bound=Record)


def _restored(model: type[R], fields: dict[str, Any], wire: Mapping[str, Any] | None) -> R:
    record = model(**fields)
    if wire is not None:
        record.__dict__["_wire"] = wire
    return record


class _Field(NamedTuple):
    """How one field of a model is found on the wire."""

    name: str
    encode_name: str
    spellings: tuple[str, ...]
    record: type[Record] | None


@functools.cache
def _layout(model: type[Record]) -> tuple[_Field, ...]:
    fields = []
    for info in msgspec.structs.fields(model):
        snake = info.name
        first, *rest = snake.split("_")
        camel = first + "".join(part.capitalize() for part in rest)
        spellings = (info.encode_name, snake, camel, *model.other_names.get(snake, ()))
        fields.append(_Field(snake, info.encode_name, spellings, _record_in(info.type)))
    return tuple(fields)


def _record_in(annotation: Any) -> type[Record] | None:
    """Find the model inside ``Model``, ``list[Model]`` or either with None."""
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, Record):
            return part
        for inner in get_args(part):
            if isinstance(inner, type) and issubclass(inner, Record):
                return inner
    return None


def _wire_value(field: _Field, wire: Mapping[str, Any]) -> Any:
    """Return a field's value under whichever spelling the platform uses; the wire mixes cases."""
    for spelling in field.spellings:
        if spelling in wire:
            return wire[spelling]
    return None


def _respelled(model: type[Record], wire: Mapping[str, Any]) -> dict[str, Any]:
    """Bring the known fields to their wire names; null counts as left out."""
    known: dict[str, Any] = {}
    for field in _layout(model):
        value = _wire_value(field, wire)
        if value is None:
            continue
        if field.record is not None:
            value = _respelled_inside(field.record, value)
        known[field.encode_name] = value
    return known


def _respelled_inside(model: type[Record], value: Any) -> Any:
    if isinstance(value, list):
        return [_respelled_inside(model, item) for item in value]
    return _respelled(model, value) if isinstance(value, dict) else value


def _attach(record: Record, wire: Mapping[str, Any]) -> None:
    """Give a record and the records inside it the objects they were made from."""
    record.__dict__["_wire"] = wire
    for field in _layout(type(record)):
        if field.record is None:
            continue
        value, raw = getattr(record, field.name), _wire_value(field, wire)
        if isinstance(value, Record) and isinstance(raw, dict):
            _attach(value, raw)
        elif isinstance(value, list) and isinstance(raw, list):
            for item, part in zip(value, raw, strict=True):
                _attach(item, part)
