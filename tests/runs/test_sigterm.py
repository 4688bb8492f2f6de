"""SIGTERM from the moment on that a run is open, whether or not anything was logged."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from prime_sync import APIClient
from tests.platform import KEY, ThreadedPlatform
from tests.runs.scripts import run_script

IN_A_BLOCK = """
with init(**options()) as run:
    print(run.id, flush=True)
    signal.raise_signal(signal.SIGTERM)
"""
WITHOUT_A_BLOCK = """
run = init(**options())
print(run.id, flush=True)
signal.raise_signal(signal.SIGTERM)
"""
DISABLED = """
with init(**options(mode="disabled")) as run:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
run = init(**options())
assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
run.finish()
print(run.id, flush=True)
signal.raise_signal(signal.SIGTERM)
"""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    """The embedded platform, shared: each test has runs of its own."""
    with ThreadedPlatform(tmp_path_factory.mktemp("platform")) as running:
        yield running


@pytest.mark.parametrize("body", [IN_A_BLOCK, WITHOUT_A_BLOCK])
def test_a_run_without_records_is_closed(
    platform: ThreadedPlatform, tmp_path: Path, body: str
) -> None:
    """The program unwinds, the platform knows why, the exit code is that of the signal."""
    code, run_id, err = run_script(platform, tmp_path / "spool", body)
    assert code == 128 + signal.SIGTERM, err
    with APIClient(KEY, base_url=platform.url) as api:
        found = api.get(f"/evaluations/{run_id}")
    assert found["status"] == "FAILED"
    assert found["error_message"].startswith("crashed: ")


def test_a_run_that_is_disabled_or_finished_owns_nothing(
    platform: ThreadedPlatform, tmp_path: Path
) -> None:
    """SIGTERM does then what it does by default."""
    code, run_id, err = run_script(platform, tmp_path / "spool", DISABLED)
    assert code == -signal.SIGTERM, err
    with APIClient(KEY, base_url=platform.url) as api:
        assert api.get(f"/evaluations/{run_id}")["status"] == "COMPLETED"
