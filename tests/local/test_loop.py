"""Which event loop the platform runs on: uvloop where it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from prime_async import local

FAKE = """
import asyncio
new_event_loop = asyncio.new_event_loop
"""


async def started_with(platform_home: Path) -> str:
    """Start the platform and return what its log says about the loop."""
    await local.ensure_running()
    log = (await local.status()).log.read_text()
    (line,) = [line for line in log.splitlines() if " serving " in line]
    return line.rpartition("loop=")[2]


async def test_the_log_names_the_loop(platform_home: Path) -> None:
    """Whatever is installed here."""
    assert await started_with(platform_home) == ("uvloop" if find_spec("uvloop") else "asyncio")


async def test_uvloop_is_used_where_it_is_installed(
    platform_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra `fast`; here a stand-in for it."""
    (tmp_path / "uvloop.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert await started_with(platform_home) == "uvloop"


async def test_a_uvloop_that_does_not_load_is_passed_over(
    platform_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built for another Python: the standard loop serves as well."""
    (tmp_path / "uvloop.py").write_text("raise ImportError('built for another Python')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert await started_with(platform_home) == "asyncio"
