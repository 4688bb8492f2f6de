"""`AsyncTracesClient`: upload, read, search, export and delete traces and episodes."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal

from prime_async.localfiles import given_path
from prime_async.traces.batches import DEFAULT_TARGET_BATCH_BYTES, Packer
from prime_async.traces.bulk import AsyncTracesBulkReader
from prime_async.traces.codes import LineFormat
from prime_async.traces.compression import EncodedBody
from prime_async.traces.connection import id_path
from prime_async.traces.encoding import TraceRecord
from prime_async.traces.errors import TracesUsageError, in_family
from prime_async.traces.feeds import Feed, ThreadFeed, feed_of
from prime_async.traces.filters import Moment, written
from prime_async.traces.intake import Intake
from prime_async.traces.lines import file_lines
from prime_async.traces.models import UploadReceipt
from prime_async.traces.receipts import UploadReceipts
from prime_async.traces.sending import DEFAULT_ATTEMPTS, Delivery, deliver
from prime_async.traces.uploading import DEFAULT_CONCURRENT, OnBatch, Upload, UploadOptions

__all__ = ["AsyncTracesClient"]


class AsyncTracesClient(AsyncTracesBulkReader):
    """Client of the traces service: upload, read, search, export, delete.

    An upload is cut into batches that are named by the digest of their bytes: sent again, after a
    crash or by another process, they are stored once. Several are on their way at a time.

    Args and errors of the constructor: see :class:`AsyncTracesConnection`. Everything it raises is
    a :class:`PrimeTracesError`, but for errors of local files and of the caller's own sources.
    """

    async def upload_records(
        self,
        records: Iterable[TraceRecord] | AsyncIterable[TraceRecord],
        *,
        line_format: LineFormat = LineFormat.TRACE,
        context: Mapping[str, str] | None = None,
        schema_version: int = 1,
        compress: bool = True,
        target_batch_bytes: int = DEFAULT_TARGET_BATCH_BYTES,
        max_attempts: int = DEFAULT_ATTEMPTS,
        on_batch: OnBatch | None = None,
        max_concurrent: int = DEFAULT_CONCURRENT,
        on_error: Literal["raise", "skip"] = "raise",
        strict: bool = False,
        timeout: float | None = None,
    ) -> UploadReceipts:
        """Upload traces or episodes that are in memory, or come out of an iterable.

        Records are written by the table in ``docs/values.md``, each when it is taken; NaN and
        infinities become null and are counted where they are rewards or metrics. A record that
        cannot be written, or is too large, is refused and the others go on. A plain iterable is
        read in a thread; either kind is closed when the upload ends early.

        Args:
            records: mappings, objects with ``to_record()``, dataclasses, Structs or pydantic
                models.
            line_format: what they are, traces or episodes.
            context: what is said of every record.
            schema_version: of the records.
            compress: whether to compress batches on the way: Zstandard where the platform and this
                Python know it, else gzip.
            target_batch_bytes: uncompressed bytes a batch aims at, at most 256 MiB.
            max_attempts: requests per batch, the first one included.
            on_batch: called with each committed batch and its receipt, in the order of the input.
            max_concurrent: batches on their way at a time, at most 256 MiB of them.
            on_error: what to do about refused records once all others are stored: ``raise`` the
                first refusal, or ``skip`` them; they are in ``.refused`` either way.
            strict: refuse records with NaN and infinities, by path.
            timeout: seconds in all; default 86,400 (a day), and 600 for each batch.

        Returns:
            The receipts, one per batch, in the order of the input; with ``.refused`` and
            ``.non_finite``.

        Raises:
            TracesUsageError: an argument is wrong; before any request.
            TracesValueError, TraceTooLargeError: a record was refused.
            PrimeTracesError: a batch failed: no further one was begun, those on their way were
                waited for. ``.receipts`` has what is stored, ``.upload`` the rest. Repeating the
                upload is safe.
        """
        _refuse_single("records", records)
        options = UploadOptions.checked(
            line_format=line_format,
            context=context,
            schema_version=schema_version,
            compress=compress,
            target_batch_bytes=target_batch_bytes,
            max_attempts=max_attempts,
            on_batch=on_batch,
            max_concurrent=max_concurrent,
            on_error=on_error,
            timeout=timeout,
        )
        intake = _intake(options, records=True, strict=strict)
        return await self._upload(feed_of(records, intake), intake, options)

    async def upload_file(
        self,
        path: str | PathLike[str],
        *,
        line_format: LineFormat = LineFormat.TRACE,
        context: Mapping[str, str] | None = None,
        schema_version: int = 1,
        compress: bool = True,
        target_batch_bytes: int = DEFAULT_TARGET_BATCH_BYTES,
        max_attempts: int = DEFAULT_ATTEMPTS,
        on_batch: OnBatch | None = None,
        max_concurrent: int = DEFAULT_CONCURRENT,
        on_error: Literal["raise", "skip"] = "raise",
        timeout: float | None = None,
    ) -> UploadReceipts:
        """Upload the lines of a JSONL file as they are; blank ones are left out.

        Args and errors as for :meth:`upload_records`; what is refused are lines that are too large.

        Raises:
            OSError: the file cannot be read.
        """
        options = UploadOptions.checked(
            line_format=line_format,
            context=context,
            schema_version=schema_version,
            compress=compress,
            target_batch_bytes=target_batch_bytes,
            max_attempts=max_attempts,
            on_batch=on_batch,
            max_concurrent=max_concurrent,
            on_error=on_error,
            timeout=timeout,
        )
        with in_family():
            file = given_path(path, "path")
        intake = _intake(options)
        return await self._upload(ThreadFeed(lambda: file_lines(file), intake), intake, options)

    async def upload_lines(
        self,
        lines: Iterable[bytes] | AsyncIterable[bytes],
        *,
        line_format: LineFormat = LineFormat.TRACE,
        context: Mapping[str, str] | None = None,
        schema_version: int = 1,
        compress: bool = True,
        target_batch_bytes: int = DEFAULT_TARGET_BATCH_BYTES,
        max_attempts: int = DEFAULT_ATTEMPTS,
        on_batch: OnBatch | None = None,
        max_concurrent: int = DEFAULT_CONCURRENT,
        on_error: Literal["raise", "skip"] = "raise",
        timeout: float | None = None,
    ) -> UploadReceipts:
        """Upload lines of JSON as they are, each with its line feed; blank ones are left out.

        Args and errors as for :meth:`upload_records`; what is refused are lines that are too large.
        """
        _refuse_single("lines", lines)
        options = UploadOptions.checked(
            line_format=line_format,
            context=context,
            schema_version=schema_version,
            compress=compress,
            target_batch_bytes=target_batch_bytes,
            max_attempts=max_attempts,
            on_batch=on_batch,
            max_concurrent=max_concurrent,
            on_error=on_error,
            timeout=timeout,
        )
        intake = _intake(options)
        return await self._upload(feed_of(lines, intake), intake, options)

    async def upload_batch(
        self,
        data: bytes | Sequence[bytes],
        digest: str,
        *,
        line_format: LineFormat = LineFormat.TRACE,
        context: Mapping[str, str] | None = None,
        schema_version: int = 1,
        compress: bool = True,
        encoded: EncodedBody | None = None,
        max_attempts: int = DEFAULT_ATTEMPTS,
        timeout: float | None = None,
    ) -> UploadReceipt:
        """Upload one batch that was made elsewhere.

        Args:
            data: its lines, as bytes or in pieces; not looked at when `encoded` is given.
            digest: SHA-256 of the plain bytes, 64 hex digits.
            line_format, context, schema_version, compress, max_attempts: as for
                :meth:`upload_records`.
            encoded: the bytes as they travel, from ``compress_batch``.
            timeout: seconds in all; default 600.

        Raises:
            PrimeTracesError: it failed; ``.ambiguous`` says whether it may have been stored.
        """
        delivery = Delivery.checked(
            line_format=line_format,
            schema_version=schema_version,
            context=context,
            compress=compress,
            max_attempts=max_attempts,
        )
        chunks = (data,) if isinstance(data, bytes) else tuple(data)
        return await deliver(self._wire, chunks, digest, delivery, encoded=encoded, timeout=timeout)

    async def delete(
        self, trace_id: str, *, created_at: Moment | None = None, timeout: float | None = None
    ) -> None:
        """Delete a trace, all copies of it.

        Args:
            trace_id: which.
            created_at: when it was created, which makes it quicker to find; a wrong one finds
                nothing.
            timeout: seconds in all; default 60.

        Raises:
            NotFoundError: there is no such trace, or no more.
            AmbiguousDeleteError: it may have been deleted, and no answer tells.
        """
        path = id_path("traces", trace_id, "trace_id")
        await self._wire.delete(path, written({"created_at": created_at}), timeout=timeout)

    async def delete_run(self, run_id: str, *, timeout: float | None = None) -> None:
        """Delete all traces of a run; its episodes stay, without traces.

        Raises:
            NotFoundError: no trace names this run, or none any more.
            AmbiguousDeleteError: they may have been deleted, and no answer tells.
        """
        id_path("runs", run_id, "run_id")
        await self._wire.delete("/traces", {"run_id": run_id}, timeout=timeout)

    async def delete_episode(self, episode_id: str, *, timeout: float | None = None) -> None:
        """Delete an episode and its traces, all copies of them; only the embedded platform can.

        Raises:
            NotFoundError: there is no such episode, or no more.
            AmbiguousDeleteError: it may have been deleted, and no answer tells.
        """
        path = id_path("episodes", episode_id, "episode_id")
        await self._wire.delete(path, timeout=timeout)

    async def _upload(self, feed: Feed, intake: Intake, options: UploadOptions) -> UploadReceipts:
        return await Upload(self._wire, feed, intake, options).run()


def _intake(options: UploadOptions, *, records: bool = False, strict: bool = False) -> Intake:
    return Intake(Packer(target_bytes=options.target_bytes), records=records, strict=strict)


def _refuse_single(field: str, given: Any) -> None:
    """Refuse what is one thing, and not many, but can be iterated over all the same."""
    if isinstance(given, str | bytes | bytearray | memoryview | Mapping):
        raise TracesUsageError(
            f"{field} is a single {type(given).__name__}", field=field, hint=f"{field}=[…]"
        )
    if not isinstance(given, Iterable | AsyncIterable):
        raise TracesUsageError(
            f"{field} is a {type(given).__name__}, which cannot be iterated over", field=field
        )
