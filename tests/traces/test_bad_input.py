"""Bad input through the client to the embedded platform: each has its typed error."""

from __future__ import annotations

from typing import Any

import pytest

from prime_async.errors import UsageError
from prime_async.sandboxes import AsyncSandboxClient
from prime_async.traces import (
    AsyncTracesClient,
    ErrorCode,
    LineFormat,
    LineFormatConflictError,
    TracesUsageError,
    ValidationRejectedError,
)
from tests.platform import ThreadedPlatform
from tests.traces.records import fresh_run, line, trace


async def test_every_refusal_is_typed(platform: ThreadedPlatform) -> None:
    """A digest of other bytes, the wrong format, lines twice, a cursor of nobody's; nothing is
    stored, and what is right goes through afterwards.
    """
    run = fresh_run()
    good, other = (line(trace(f"{run}-{name}", run=run)) for name in "ab")
    async with AsyncTracesClient(platform.key, base_url=platform.url) as client:
        with pytest.raises(ValidationRejectedError) as refused:
            await client.upload_batch(good, "0" * 64, line_format=LineFormat.TRACE)
        assert refused.value.code == ErrorCode.DIGEST_MISMATCH
        with pytest.raises(ValidationRejectedError) as refused:
            await client.upload_lines([good], line_format=LineFormat.EPISODE)
        assert refused.value.code == ErrorCode.LINE_FORMAT_MISMATCH
        with pytest.raises(ValidationRejectedError) as refused:
            await client.upload_lines([good, good])
        assert refused.value.code == ErrorCode.DUPLICATE_TRACE_ID
        with pytest.raises(ValidationRejectedError) as refused:
            await client.list(run_id=run, cursor="nobody's")
        assert (refused.value.status, refused.value.code) == (400, ErrorCode.INVALID_CURSOR)
        assert (await client.list(run_id=run)).items == []
        assert len(await client.upload_lines([good])) == 1
        with pytest.raises(LineFormatConflictError):
            await client.upload_lines([good], line_format=LineFormat.EPISODE)
        assert len(await client.upload_lines([other])) == 1
        assert len((await client.list(run_id=run)).items) == 2


@pytest.mark.parametrize("path", [5, None, b"x", ["x"]])
async def test_a_path_is_text_or_a_path(path: Any) -> None:
    """Each call that takes one names its argument, before anything is sent."""
    nowhere: dict[str, Any] = {"api_key": "key", "base_url": "http://127.0.0.1:9"}
    async with AsyncTracesClient("key", base_url=nowhere["base_url"]) as traces:
        for call, field in ((traces.upload_file, "path"), (traces.export, "dest")):
            with pytest.raises(TracesUsageError, match=f"{field} is a {type(path).__name__}, not"):
                await call(path)
        with pytest.raises(TracesUsageError, match="dest is a"):
            await traces.download_raw("t", path)
        with pytest.raises(TracesUsageError, match="group_by is"):
            await traces.aggregate(path)
    async with AsyncSandboxClient(**nowhere) as sandboxes:
        for send in (sandboxes.upload_file, sandboxes.download_file):
            with pytest.raises(UsageError, match="local_file_path is a"):
                await send("box", "/app/x", path)
