"""Files of this machine, replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prime_async.localfiles import AtomicFile


@pytest.mark.parametrize("name", ["x", "a" * 255, "🤣" * 63, "é" * 127, "\udcff" * 255])
async def test_any_name_the_system_takes(tmp_path: Path, name: str) -> None:
    """The file beside it has a name that fits too, counted in bytes; nothing but the file stays."""
    async with AtomicFile(tmp_path / name) as file:
        await file.write(b"whole")
        await file.commit()
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"whole"
