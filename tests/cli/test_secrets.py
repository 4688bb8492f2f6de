"""A key is nowhere but in its file and its header: not in output, logs or anything kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.harness import CANARY, Ran
from tests.cli.runs import real_run
from tests.stub import Answer, Stub

Inside = Callable[..., Ran]


@pytest.mark.parametrize("mode", ["table", "json"])
@pytest.mark.parametrize("status", [200, 401, 403, 404, 422, 500])
def test_FR57_not_with_debug_logging_and_not_in_any_error(
    stub: Stub,
    inside: Inside,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    mode: str,
) -> None:
    """Commands with PRIME_DEBUG, a platform that sends the key back in every answer."""
    monkeypatch.setenv("PRIME_DEBUG", "1")
    monkeypatch.setattr("random.random", lambda: 0.0)
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
    stub.default = Answer(
        status,
        headers={"X-Request-Id": CANARY, "X-Echo": CANARY},
        json={"detail": f"bad {CANARY}", "name": CANARY, "evaluation_id": "ev1", "id": "env1"},
    )
    run = real_run(tmp_path / "run")
    traces = tmp_path / "traces.jsonl"
    traces.write_text('{"id": "t"}\n', "utf-8")
    for words in (
        ("whoami",),
        ("eval", "list"),
        ("eval", "push", str(run)),
        ("eval", "create", "--name", "n", "--env", "e"),
        ("eval", "delete", "ev1", "-y"),
        ("config", "view"),
        ("eval", "sync"),
        ("traces", "list"),
        ("traces", "get", "t1"),
        ("traces", "upload", str(traces)),
        ("traces", "sync"),
        ("runs", "list"),
        ("runs", "metrics", "r1"),
    ):
        ran = inside(*words, "-o", mode)
        shown = ran.err if ran.code == 0 else ran.everything  # data may hold what it holds
        assert "CANARY" not in shown, (words, ran)
    assert any("CANARY" in request.headers.get("Authorization", "") for request in stub.requests)
    assert [request for request in stub.requests if b"CANARY" in request.body] == []
    for path in (home / ".prime").rglob("*"):
        if path.is_file():
            assert b"CANARY" not in path.read_bytes(), path


def test_debug_shows_the_traceback_and_what_the_core_logs(
    stub: Stub, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PRIME_DEBUG=1 is what an error of ours points at."""
    from prime_async_cli.session import Session

    def broken(_: Session) -> None:
        raise KeyError(CANARY)

    monkeypatch.setattr(Session, "settings", broken)
    ran = inside("eval", "list")
    assert ran.code == 1
    assert "PRIME_DEBUG=1 shows where it happened" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setenv("PRIME_DEBUG", "1")
    ran = inside("eval", "list")
    assert "Traceback" in ran.err
    assert "test_secrets.py" in ran.err
    assert "sk-CANARY" not in ran.everything
