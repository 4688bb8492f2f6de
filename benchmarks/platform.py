"""The embedded platform with running sandboxes, in a process of its own, for benchmarks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.platform import KEY, ProcessPlatform

__all__ = ["Boxes", "become_official"]


@dataclass(frozen=True)
class Boxes:
    """A platform and the ids of sandboxes that run in it."""

    url: str
    ids: tuple[str, ...]

    @property
    def arguments(self) -> dict[str, Any]:
        """What a contender is told; it gets them as keyword arguments."""
        return {"url": self.url, "key": KEY, "ids": list(self.ids)}

    @classmethod
    @contextlib.contextmanager
    def start(cls, count: int) -> Iterator[Boxes]:
        """Run both for the length of a block."""
        with tempfile.TemporaryDirectory() as folder, ProcessPlatform(Path(folder)) as platform:
            ids = asyncio.run(_make(platform.url, count))
            try:
                yield cls(platform.url, tuple(ids))
            finally:
                asyncio.run(_end(platform.url, ids))


async def _make(url: str, count: int) -> list[str]:
    from prime_async.sandboxes import AsyncSandboxClient, CreateSandboxRequest

    async with AsyncSandboxClient(api_key=KEY, base_url=url) as client:
        request = CreateSandboxRequest(
            name="bench", docker_image="ubuntu:24.04", memory_gb=2, disk_size_gb=10
        )
        made = [(await client.create(request)).id for _ in range(count)]
        await client.bulk_wait_for_creation(made)
        return made


async def _end(url: str, ids: list[str]) -> None:
    from prime_async.sandboxes import AsyncSandboxClient

    async with AsyncSandboxClient(api_key=KEY, base_url=url) as client:
        await client.bulk_delete(ids)


def become_official(url: str, key: str) -> None:
    """Point the official package, which reads the environment, at the platform."""
    os.environ |= {"PRIME_API_BASE_URL": url, "PRIME_API_KEY": key}
