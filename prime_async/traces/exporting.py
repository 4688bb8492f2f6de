"""What an export is: one row per trace, its summary and its document, as JSON lines or Parquet.

The embedded platform writes its exports with this, and the client those that a platform does not
offer, so that they are the same.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Literal

import msgspec

from prime_async.traces.errors import TracesUsageError
from prime_async.traces.models import TraceSummary

__all__ = [
    "EXPORT_FORMATS",
    "ExportBuffer",
    "ExportFormat",
    "JsonLinesExport",
    "ParquetExport",
    "PARQUET_REMEDY",
    "RawExport",
    "TRACES_EXPORT",
    "TraceExport",
    "check_format",
    "new_export",
]

TRACES_EXPORT = "traces-export"
"""Feature of platforms that write exports themselves."""

ExportFormat = Literal["jsonl", "parquet"]

EXPORT_FORMATS = ("jsonl", "parquet")

PARQUET_REMEDY = "pip install 'prime-async[parquet]'"

_GROUP_BYTES = 16 * 2**20
"""Bytes of documents after which a row group is written."""


class ExportBuffer(io.RawIOBase):
    """Holds what a writer of an export wrote, until it is taken: an export can so be streamed."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._written += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._written

    def take(self) -> bytes:
        """Return what was written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class JsonLinesExport:
    """One line per trace: its summary, and its document, as it was uploaded, under ``trace``."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file

    def add(self, summary: TraceSummary, document: bytes) -> None:
        """Write one trace."""
        row = {**msgspec.to_builtins(summary), **summary.to_wire()}
        row["trace"] = msgspec.Raw(document.strip())
        self._file.write(msgspec.json.encode(row) + b"\n")

    def close(self) -> None:
        """Write what is left: nothing."""


class RawExport:
    """One line per trace: its document as it was uploaded, and nothing else."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file

    def add(self, summary: TraceSummary, document: bytes) -> None:
        """Write one trace."""
        self._file.write(document.rstrip(b"\n") + b"\n")

    def close(self) -> None:
        """Write what is left: nothing."""


class ParquetExport:
    """One row per trace: the fields of its summary, ``context`` and ``metrics`` as JSON text, and
    its document as JSON text in ``trace``.

    Raises:
        TracesUsageError: pyarrow is not installed.
    """

    def __init__(self, file: io.RawIOBase) -> None:
        self._arrow, parquet = _pyarrow()
        self._schema = self._arrow.schema(
            [(name, self._kind(kind)) for name, kind, _ in _COLUMNS]
            + [("trace", self._arrow.large_string())]
        )
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def add(self, summary: TraceSummary, document: bytes) -> None:
        """Take one trace; several are written together."""
        row = {name: read(summary) for name, _, read in _COLUMNS}
        self._rows.append(row | {"trace": document.strip().decode()})
        self._size += len(document)
        if self._size >= _GROUP_BYTES:
            self._write()

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        if self._rows:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        table = self._arrow.Table.from_pylist(self._rows, schema=self._schema)
        self._writer.write_table(table)
        self._rows, self._size = [], 0

    def _kind(self, name: str) -> Any:
        if name == "moment":
            return self._arrow.timestamp("us", tz="UTC")
        return getattr(self._arrow, name)()


TraceExport = JsonLinesExport | ParquetExport | RawExport

_Read = Callable[[TraceSummary], Any]


def _as_json(name: str) -> _Read:
    return lambda summary: msgspec.json.encode(getattr(summary, name)).decode()


_COLUMNS: tuple[tuple[str, str, _Read], ...] = (
    ("trace_id", "string", attrgetter("trace_id")),
    ("upload_id", "string", attrgetter("upload_id")),
    ("episode_id", "string", attrgetter("episode_id")),
    ("created_at", "moment", attrgetter("created_at")),
    ("ingested_at", "moment", attrgetter("ingested_at")),
    ("run_id", "string", attrgetter("run_id")),
    ("run_step", "int64", attrgetter("run_step")),
    ("environment_id", "string", attrgetter("environment_id")),
    ("model_provider", "string", attrgetter("model.provider")),
    ("model_id", "string", attrgetter("model.id")),
    ("task_id", "string", attrgetter("task_id")),
    ("agent_name", "string", attrgetter("agent_name")),
    ("reward", "float64", attrgetter("score.reward")),
    ("outcome", "string", attrgetter("score.outcome")),
    ("has_error", "bool_", attrgetter("execution.has_error")),
    ("is_truncated", "bool_", attrgetter("execution.is_truncated")),
    ("duration_ms", "int64", attrgetter("duration_ms")),
    ("total_tokens", "int64", attrgetter("total_tokens")),
    ("size_bytes", "int64", attrgetter("size_bytes")),
    ("context", "string", _as_json("context")),
    ("metrics", "string", _as_json("metrics")),
)
"""Name, type and source of each column but the document."""


def new_export(kind: str, file: io.RawIOBase) -> TraceExport:
    """Return the writer of a format: ``jsonl``, ``parquet`` or ``raw``.

    Raises:
        TracesUsageError: there is no such format, or pyarrow is not installed.
    """
    if kind == "raw":
        return RawExport(file)
    return ParquetExport(file) if check_format(kind) == "parquet" else JsonLinesExport(file)


def check_format(kind: str) -> str:
    """Check a format.

    Raises:
        TracesUsageError: there is no such format.
    """
    if kind not in EXPORT_FORMATS:
        raise TracesUsageError(
            f"format is {kind!r}", field="format", hint=f"one of: {', '.join(EXPORT_FORMATS)}"
        )
    return kind


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise TracesUsageError(
            "format='parquet' needs pyarrow", field="format", hint=PARQUET_REMEDY
        ) from error
    return pyarrow, pyarrow.parquet
