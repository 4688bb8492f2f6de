"""A double with told jobs, and a client on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async import AsyncSandboxClient
from tests.job_double import JobDouble


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[JobDouble]:
    """The double."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    async with JobDouble(folder) as running:
        yield running


@pytest.fixture
async def jobs_client(told: JobDouble) -> AsyncIterator[AsyncSandboxClient]:
    """A client of it."""
    async with AsyncSandboxClient(api_key="sk-CANARY", base_url=told.url) as made:
        yield made
