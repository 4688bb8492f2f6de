"""The words of the traces wire: error codes, line formats, what can be searched."""

from __future__ import annotations

import enum
from typing import Literal

__all__ = ["BUSY_CODES", "ErrorCode", "LineFormat", "RunType", "SearchField"]

RunType = Literal["eval", "train", "unknown"]
"""What a run is, as far as its traces tell."""

SearchField = Literal["content", "reasoning_content", "tool_calls"]
"""The part of a message that a search looks into."""


class LineFormat(enum.StrEnum):
    """What one line of an upload is."""

    TRACE = "trace"
    EPISODE = "episode"


class ErrorCode(enum.StrEnum):
    """Codes of errors, to compare with ``error.code`` by ``==``.

    A platform may send others: ``code`` is plain text.
    """

    UPLOAD_TOO_LARGE = "upload_too_large"
    TRACE_TOO_LARGE = "trace_too_large"
    TOO_MANY_TRACES_IN_EPISODE = "too_many_traces_in_episode"
    EPISODE_ID_TOO_LONG = "episode_id_too_long"
    ENVIRONMENT_ID_TOO_LONG = "environment_id_too_long"
    TOO_MANY_TRACES_IN_UPLOAD = "too_many_traces_in_upload"
    DUPLICATE_TRACE_ID = "duplicate_trace_id"
    DUPLICATE_EPISODE_ID = "duplicate_episode_id"
    DIGEST_MISMATCH = "digest_mismatch"
    LINE_FORMAT_MISMATCH = "line_format_mismatch"
    MALFORMED_ENCODING = "malformed_encoding"
    INVALID_TRACE = "invalid_trace"
    INVALID_METADATA = "invalid_metadata"
    CREATED_AT_OUT_OF_WINDOW = "created_at_out_of_window"
    UNSUPPORTED_SCHEMA_VERSION = "unsupported_schema_version"
    UNKNOWN_EPISODE_REFERENCE = "unknown_episode_reference"
    LINE_FORMAT_CONFLICT = "line_format_conflict"
    TRACE_NOT_INDEXED = "trace_not_indexed"
    INVALID_IDEMPOTENCY_KEY = "invalid_idempotency_key"
    INVALID_CURSOR = "invalid_cursor"
    INVALID_FILTER = "invalid_filter"
    SEARCH_LIMIT_EXCEEDED = "search_limit_exceeded"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    SERVICE_NOT_ENABLED = "service_not_enabled"
    AUTH_UNAVAILABLE = "auth_unavailable"
    TRACE_NOT_FOUND = "trace_not_found"
    RUN_NOT_FOUND = "run_not_found"
    EPISODE_NOT_FOUND = "episode_not_found"
    EXPORT_JOB_NOT_FOUND = "export_job_not_found"
    RATE_LIMITED = "rate_limited"
    WRITER_POOL_SATURATED = "writer_pool_saturated"
    INGEST_CAPACITY_EXCEEDED = "ingest_capacity_exceeded"
    INGEST_UNAVAILABLE = "ingest_unavailable"
    STORAGE_UNAVAILABLE = "storage_unavailable"


BUSY_CODES = frozenset(
    {
        ErrorCode.RATE_LIMITED,
        ErrorCode.WRITER_POOL_SATURATED,
        ErrorCode.INGEST_CAPACITY_EXCEEDED,
        ErrorCode.INGEST_UNAVAILABLE,
        ErrorCode.STORAGE_UNAVAILABLE,
        ErrorCode.AUTH_UNAVAILABLE,
    }
)
"""Codes with which the service says that it did nothing and may do it later."""
