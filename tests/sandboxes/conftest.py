"""A double of the platform, a client on it, and a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_async import AsyncSandboxClient, CreateSandboxRequest
from tests.extras_double import ExtrasDouble
from tests.sandbox_double import SandboxDouble


@pytest.fixture
async def double(tmp_path: Path) -> AsyncIterator[SandboxDouble]:
    """The platform's double."""
    folder = tmp_path / "sandbox"
    folder.mkdir()
    async with SandboxDouble(folder) as running:
        yield running


@pytest.fixture
async def client(double: SandboxDouble) -> AsyncIterator[AsyncSandboxClient]:
    """A client of the double."""
    async with AsyncSandboxClient(api_key="sk-CANARY", base_url=double.url) as made:
        yield made


@pytest.fixture
async def box(client: AsyncSandboxClient) -> str:
    """The id of a sandbox that runs."""
    return (await client.create(CreateSandboxRequest(name="box", docker_image="python:3.11"))).id


@pytest.fixture
async def extras(tmp_path: Path) -> AsyncIterator[ExtrasDouble]:
    """The double of a platform that has everything."""
    folder = tmp_path / "extras"
    folder.mkdir()
    async with ExtrasDouble(folder) as running:
        yield running


@pytest.fixture
async def wide(extras: ExtrasDouble) -> AsyncIterator[AsyncSandboxClient]:
    """A client of it."""
    async with AsyncSandboxClient(api_key="sk-CANARY", base_url=extras.url) as made:
        yield made
