"""Waiting for an image build."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from prime_async.errors import ImageBuildError
from prime_async.images.models import ENDED_BUILDS, ImageBuild

__all__ = ["BUILD_SECONDS", "until_built"]

BUILD_SECONDS = 1800.0
"""Seconds a build may take."""

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 10.0


async def until_built(build_id: str, look: Callable[[], Awaitable[ImageBuild]]) -> ImageBuild:
    """Wait until a build has ended, and return how.

    Raises:
        ImageBuildError: it failed or was cancelled.
    """
    pause = _FIRST_PAUSE
    while True:
        build = await look()
        if build.status == "COMPLETED":
            return build
        if build.status in ENDED_BUILDS:
            raise ImageBuildError(build_id, build.status, build.error_message)
        await anyio.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 1.5)
