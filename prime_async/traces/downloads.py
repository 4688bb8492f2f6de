"""Bytes from the service into a file, which appears under its name when it is whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from prime_async.localfiles import AtomicFile, windows_of
from prime_async.transport import Transport, check_timeout, deadline

__all__ = ["DOWNLOAD_SECONDS", "download"]

DOWNLOAD_SECONDS = 86_400.0
"""Seconds a download may take by default; 60 without a byte end it."""


async def download(
    transport: Transport,
    path: str,
    params: Mapping[str, Any],
    dest: str | os.PathLike[str],
    timeout: float | None,
) -> int:
    """Write the answer to a GET into a file and return its bytes.

    Raises:
        APIError: it failed; a file of that name is still what it was.
        OSError: the file cannot be written.
    """
    seconds = check_timeout(timeout, DOWNLOAD_SECONDS)
    size = 0
    with deadline(seconds, f"the download to {os.fspath(dest)}"):
        async with AtomicFile(dest) as file:
            async with transport.stream(
                "GET", path, params=params, headers={"Accept": "*/*"}
            ) as response:
                async for window in windows_of(response.iter_bytes()):
                    await file.write(window)
                    size += len(window)
            await file.commit()
    return size
