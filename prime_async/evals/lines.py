"""Lines of JSONL files: read within bounds, and turned into the samples they stand for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

__all__ = [
    "MAX_LINE_BYTES",
    "Line",
    "LineError",
    "RowMapping",
    "decoded",
    "json_name",
    "numbered_lines",
    "samples_of",
    "with_example_id",
]

MAX_LINE_BYTES = 256 * 2**20
"""Longest line that is read; a file without line ends must not fill the memory."""

RowMapping = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""Turns one decoded line into the samples it stands for."""

_BOM = b"\xef\xbb\xbf"
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Line(NamedTuple):
    """A line that is not blank, without the white space around it.

    Attributes:
        number: from 1.
        start: columns cut off before it.
        data: the line.
    """

    number: int
    start: int
    data: bytes


class LineError(Exception):
    """A line that is no JSON object: what is wrong, and the column (from 1) within `Line.data`."""

    def __init__(self, what: str, column: int = 1) -> None:
        super().__init__(what)
        self.what = what
        self.column = column


def numbered_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file, blank ones and a byte order mark left out.

    Raises:
        OSError: the file cannot be read.
        LineError: a line is longer than 256 MiB.
    """
    number = 0
    with path.open("rb") as file:
        while whole := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(whole) > MAX_LINE_BYTES:
                raise LineError(f"line {number} is longer than {MAX_LINE_BYTES >> 20} MiB")
            text = whole.removeprefix(_BOM) if number == 1 else whole
            data = text.strip()
            if data:
                yield Line(number, len(text) - len(text.lstrip()), data)


def samples_of(
    line: bytes, *, rename_id: bool = False, mapping: RowMapping | None = None
) -> list[bytes | dict[str, Any]]:
    """Return the samples of a line: as bytes what is sent as it stands, else what is to be encoded.

    Args:
        line: without white space around it.
        rename_id: copy ``id`` to ``example_id`` where that key is missing.
        mapping: what one line stands for, when it is not one sample.

    Raises:
        LineError: it is not a JSON object, or not one that `mapping` understands.
    """
    if mapping is not None:
        return _mapped(mapping, decoded(line))
    fields = _fields_of(line)
    if fields is None:  # valid to the standard library at most, as NaN is
        row = decoded(line)
        return [with_example_id(row) if rename_id else row]
    if rename_id and "example_id" not in fields and "id" in fields:
        return [with_example_id(fields)]
    return [line]


def decoded(line: bytes) -> dict[str, Any]:
    """Decode a line the lenient way, NaN and infinities included.

    Raises:
        LineError: it is not a JSON object.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8: {error.reason}", error.start + 1) from error
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise LineError(f"not JSON: {error.msg}", error.colno) from error
    except RecursionError as error:
        raise LineError("nested too deeply to be read") from error
    except ValueError as error:  # a number of too many digits
        raise LineError(f"cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise LineError(f"a JSON {json_name(value)}, not an object")
    return value


def json_name(value: object) -> str:
    """Return what JSON calls a decoded value, such as ``array``."""
    return _JSON_NAMES[type(value)]


_JSON_NAMES = {
    list: "array",
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    type(None): "null",
}


def _fields_of(line: bytes) -> dict[str, msgspec.Raw] | None:
    """Take a line apart without decoding the values; None when it is not proper JSON."""
    try:
        fields = _FIELDS.decode(line)
        line.decode("utf-8")  # msgspec skips over text without looking inside
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return fields


def with_example_id(row: dict[str, Any]) -> dict[str, Any]:
    """Copy ``id`` to ``example_id`` where a row has only that, as older versions wrote it."""
    return {"example_id": row["id"], **row} if "id" in row and "example_id" not in row else row


def _mapped(mapping: RowMapping, row: dict[str, Any]) -> list[bytes | dict[str, Any]]:
    try:
        return list(mapping(row))
    except Exception as error:  # a record of another shape is a fault of the line, to be named
        raise LineError(f"not of the expected shape: {type(error).__name__}: {error}") from error
