"""What a log says of a run that kept records, and of a platform that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_async import AsyncAPIClient
from prime_async.errors import APIConnectionError
from prime_async.runs.counters import Counts
from prime_async.runs.options import RunStatus
from prime_async.runs.receipts import FinishReceipt, with_next_step


def receipt(*paths: Path) -> FinishReceipt:
    return FinishReceipt(
        run_id="r1",
        status=RunStatus.COMPLETED,
        error=None,
        counts=Counts(delivered=1, spooled=len(paths)),
        by_sink={},
        refused=(),
        refused_path=None,
        spool_paths=paths,
        reported=True,
        errors=(),
    )


def test_the_command_that_delivers_the_rest(home: Path, tmp_path: Path) -> None:
    """It looks into the usual spool by itself, and elsewhere when it is told where."""
    assert with_next_step(receipt()) == "1 of 1 records delivered"
    usual = with_next_step(receipt(home / ".prime/spool/run.traces/log_1"))
    assert usual.endswith("(`prime-async traces sync` delivers it)")
    elsewhere = with_next_step(receipt(tmp_path / "spool/run.traces/log_1"))
    assert elsewhere.endswith("(`prime-async traces sync --from FOLDER` delivers each of them)")


async def test_a_platform_that_does_not_run_is_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket and how to start it, not only that a file is missing."""
    monkeypatch.setattr("random.random", lambda: 1.0)  # full jitter: no pause between the tries
    folder = home / ".prime" / "environments"
    folder.mkdir(parents=True)
    socket = tmp_path / "api.sock"
    (folder / "gone.json").write_text(
        '{"api_key": "key-0123456789", "base_url": "http://127.0.0.1:1", '
        f'"unix_socket": "{socket}"}}'
    )
    async with AsyncAPIClient(context="gone") as api:
        with pytest.raises(APIConnectionError, match="the embedded platform does not answer") as no:
            await api.get("/user/whoami")
    assert str(socket) in str(no.value)
    assert "local start" in (no.value.hint or "")
