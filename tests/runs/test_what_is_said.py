"""What a log says of a run that kept records, and of a platform that is not there."""

from __future__ import annotations

from pathlib import Path

from aiohttp.client_exceptions import UnixClientConnectorError
from aiohttp.client_reqrep import ConnectionKey

from prime_async.runs.counters import Counts
from prime_async.runs.options import RunStatus
from prime_async.runs.receipts import FinishReceipt, with_next_step
from prime_async.transport.faults import classify


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


def test_a_platform_that_does_not_run_is_named() -> None:
    """Its socket and how to start it, not only that a file is missing."""
    key = ConnectionKey("127.0.0.1", 1, False, True, None, None, None)
    missing = OSError(2, "No such file or directory")
    fault = classify(UnixClientConnectorError("/home/me/api.sock", key, missing))
    assert fault is not None
    assert fault.what.startswith("the embedded platform does not answer on /home/me/api.sock: No")
    assert fault.hint is not None
    assert "local start" in fault.hint
