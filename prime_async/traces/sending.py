"""One batch on its way: compressed once, sent until the platform has it or refuses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from prime_async.requests import check_range, read_record
from prime_async.traces.codes import LineFormat
from prime_async.traces.compression import EncodedBody, compress_batch, plain_body
from prime_async.traces.errors import TracesUsageError, in_family
from prime_async.traces.models import UploadReceipt
from prime_async.traces.multipart import UploadBody
from prime_async.transport import WIRE_KEY

if TYPE_CHECKING:
    from prime_async.traces.api import AsyncTracesAPIClient

__all__ = ["BATCH_SECONDS", "DEFAULT_ATTEMPTS", "Delivery", "deliver", "encode"]

BATCH_SECONDS = 600.0
"""Seconds a batch may take by default, retries included."""

DEFAULT_ATTEMPTS = 5
"""Requests per batch at most; a batch is named by its digest, so repeating it is harmless."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How batches are sent, checked."""

    line_format: LineFormat = LineFormat.TRACE
    schema_version: int = 1
    context: Mapping[str, str] | None = None
    compress: bool = True
    max_attempts: int = DEFAULT_ATTEMPTS

    @classmethod
    def checked(
        cls,
        *,
        line_format: LineFormat | str = LineFormat.TRACE,
        schema_version: int = 1,
        context: Mapping[str, str] | None = None,
        compress: bool = True,
        max_attempts: int = DEFAULT_ATTEMPTS,
    ) -> Self:
        """Check the arguments.

        Raises:
            TracesUsageError: names the one that is wrong.
        """
        with in_family():
            check_range("max_attempts", max_attempts, 1)
            check_range("schema_version", schema_version, 1)
        return cls(
            _line_format(line_format),
            schema_version,
            _context(context),
            bool(compress),
            max_attempts,
        )


def _line_format(value: LineFormat | str) -> LineFormat:
    try:
        return LineFormat(value)
    except ValueError as error:
        raise TracesUsageError(
            f"line_format is {value!r}",
            field="line_format",
            hint="LineFormat.TRACE or LineFormat.EPISODE",
        ) from error


def _context(context: object) -> dict[str, str] | None:
    if context is None:
        return None
    if not isinstance(context, Mapping):
        raise TracesUsageError(
            f"context is a {type(context).__name__}, not a mapping", field="context"
        )
    for key, value in context.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TracesUsageError(
                f"context[{key!r}] is {value!r}; keys and values are text",
                field=f"context.{key}",
            )
    return dict(context)


async def encode(
    api: AsyncTracesAPIClient, chunks: Sequence[bytes], delivery: Delivery
) -> EncodedBody:
    """Make the bytes of a batch ready to travel: compressed once, as the platform likes best."""
    if not delivery.compress:
        return plain_body(chunks)
    return await compress_batch(chunks, (await api.connect()).features)


async def deliver(
    api: AsyncTracesAPIClient,
    chunks: Sequence[bytes],
    digest: str,
    delivery: Delivery,
    *,
    encoded: EncodedBody | None = None,
    timeout: float | None = None,
) -> UploadReceipt:
    """Send one batch and return its receipt.

    Args:
        chunks: its plain bytes; not looked at when `encoded` is given.
        digest: SHA-256 of the plain bytes.
        delivery: how.
        encoded: the bytes as they travel, when they are made already.
        timeout: seconds in all, retries included; default 600.

    Raises:
        PrimeTracesError: it is refused, or was not delivered in time; ``.ambiguous`` says whether
            it may have been stored nevertheless.
    """
    headers = {"Accept": "application/json"}
    if delivery.line_format is LineFormat.EPISODE:
        headers["X-Prime-Line-Format"] = delivery.line_format.value
    with in_family():
        if encoded is None:
            encoded = await encode(api, chunks, delivery)
        response = await (await api.connect()).request(
            "POST",
            "/traces",
            body=UploadBody(
                encoded, schema_version=delivery.schema_version, context=delivery.context
            ),
            headers=headers,
            timeout=BATCH_SECONDS if timeout is None else timeout,
            idempotency_key=f"sha256:{digest}",
            deduplicated_by=WIRE_KEY,
            tries=delivery.max_attempts,
        )
        return read_record(response, UploadReceipt)
