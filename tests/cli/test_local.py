"""`local` and `demo`: the embedded platform from the command line, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import COMMAND, Ran, run_command
from tests.cli.runs import real_run
from tests.cli.terminal import Terminal


@pytest.fixture
def daemon(home: Path) -> Iterator[Path]:
    """A home whose platform is stopped in the end, whatever the test did."""
    yield home
    run_command("local", "stop", "--all", "--yes")


def status() -> dict[str, object]:
    answer: dict[str, object] = json.loads(run_command("local", "status", "-o", "json").out)
    return answer


def test_life_of_the_platform(daemon: Path, tmp_path: Path) -> None:
    """Start, use, stop, start again: the address and the data stay."""
    before = run_command("local", "status", "-o", "json")
    assert before.code == 1
    assert json.loads(before.out)["running"] is False
    assert not (daemon / ".prime").exists(), "looking makes nothing"

    started = run_command("local", "start", "-o", "json")
    assert (started.code, started.err) == (0, "")
    first = json.loads(started.out)
    assert (first["started"], first["current_context"]) == (True, "local")
    again = json.loads(run_command("local", "start", "-o", "json").out)
    assert (again["started"], again["pid"]) == (False, first["pid"])
    assert run_command("local", "status").code == 0

    pushed = run_command("eval", "push", str(real_run(tmp_path / "run")))
    assert pushed.code == 0, pushed

    stopped = run_command("local", "stop")
    assert stopped.code == 0
    assert "its data stay in" in stopped.out
    assert run_command("local", "status").code == 1
    assert run_command("local", "stop").out == "the local platform does not run\n"

    listed = run_command("eval", "list", "-o", "json")
    assert json.loads(listed.out)["total"] == 1, "the context starts it again on first use"
    assert status()["base_url"] == first["base_url"]


def test_start_leaves_a_chosen_place_alone(daemon: Path) -> None:
    """Only where nothing else is configured the local platform becomes the current context."""
    assert run_command("config", "set-api-key", input="k" * 20).code == 0
    answer = json.loads(run_command("local", "start", "-o", "json").out)
    assert answer["current_context"] is None
    view = json.loads(run_command("config", "view", "-o", "json").out)["settings"]
    assert view["context"]["value"] == "production"


def test_env_points_any_client_at_it(daemon: Path) -> None:
    """`eval "$(prime-async local env)"`, with the official client as the any client."""
    code = (
        "from prime_evals import APIClient, EvalsClient\n"
        "print(EvalsClient(APIClient()).list_evaluations()['total'])"
    )
    script = f'eval "$({COMMAND} local env)"; "{sys.executable}" -c "$CODE"'
    done = subprocess.run(
        ["sh", "-ec", script],
        env={**os.environ, "CODE": code},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    variables = json.loads(run_command("local", "env", "-o", "json").out)
    assert set(variables) == {"PRIME_API_BASE_URL", "PRIME_API_KEY", "PRIME_TRACES_URL"}
    fish = run_command("local", "env", "--shell", "fish").out.splitlines()
    assert fish[0] == f"set -gx PRIME_API_BASE_URL '{variables['PRIME_API_BASE_URL']}'"


def test_logs(daemon: Path) -> None:
    """Said plainly when there is none; the last lines; new lines until Ctrl-C."""
    none = run_command("local", "logs")
    assert none.code == 1
    assert "there is no log yet" in none.err
    run_command("local", "start")
    assert len(run_command("local", "logs", "-n", "1").out.splitlines()) == 1
    answer = json.loads(run_command("local", "logs", "-o", "json").out)
    assert any("listening" in line for line in answer["lines"])
    assert run_command("local", "logs", "-f", "-o", "json").code == 2
    with Terminal(("local", "logs", "--follow", "--tail", "0"), columns=300) as terminal:
        deadline = time.monotonic() + 20
        while b"/api/v1/user/whoami" not in terminal.screen and time.monotonic() < deadline:
            assert run_command("--context", "local", "whoami").code == 0
            terminal._read(0.2)
        assert b"/api/v1/user/whoami" in terminal.screen
        terminal.type(b"\x03")
        assert terminal.end() == 130


def test_a_port_that_is_taken(daemon: Path) -> None:
    """Named with what to do; nothing half-done."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = run_command("local", "start", "--port", str(taken.getsockname()[1]))
    assert ran.code == 1
    assert "is taken" in ran.err
    assert status()["running"] is False


def test_demo_in_an_empty_home(daemon: Path) -> None:
    """Real figures, nothing left running, what was made can be looked at."""
    ran = run_command("demo")
    assert (ran.code, ran.err) == (0, "")
    for said in (
        *("2 samples stored: 1,424 bytes", "reward 1", "each equal to what was pushed"),
        *("python train.py --epochs 100", "exit code 0", "slope 3.007, offset 0.498"),
    ):
        assert said in ran.out
    assert "Nothing is left running" in ran.out
    assert status()["running"] is False
    assert {path.name for path in daemon.iterdir()} == {".prime"}
    assert not (daemon / ".prime" / "config.json").exists(), "no context was chosen for the user"
    listed = run_command("--context", "local", "eval", "list", "-o", "json")
    assert json.loads(listed.out)["total"] == 1


@pytest.mark.slow
def test_demo_beside_a_running_platform(daemon: Path) -> None:
    """What ran before goes on; JSON is one document; `--keep` leaves it running."""
    kept = run_command("demo", "--keep", "-o", "json")
    assert (kept.code, kept.err) == (0, "")
    assert json.loads(kept.out)["platform_left_running"] is True
    pid = status()["pid"]
    again = json.loads(run_command("demo", "-o", "json").out)
    assert again["training"]["model"]["epochs"] == 100
    assert (again["samples"], again["equal"], again["platform_left_running"]) == (2, True, True)
    assert status()["pid"] == pid


def test_demo_where_namespaces_are_refused(
    daemon: Path, inside: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, and goes on with plain processes on a platform of its own, which is gone then."""
    from prime_async import AsyncSandboxClient, SandboxNotRunningError

    wait = AsyncSandboxClient.wait_for_creation
    refusals = ["user namespaces are refused here"]

    async def waited(client: AsyncSandboxClient, sandbox_id: str, **options: Any) -> None:
        if refusals:
            why = ("ERROR", "RUNTIME_UNAVAILABLE", None, refusals.pop())
            raise SandboxNotRunningError(sandbox_id, *why)
        await wait(client, sandbox_id, **options)

    monkeypatch.setattr(AsyncSandboxClient, "wait_for_creation", waited)
    ran = inside("demo")
    assert ran.code == 0, ran
    assert "user namespaces are refused here" in ran.out
    assert "plain processes, not isolated" in ran.out
    assert "slope 3.007, offset 0.498" in ran.out


def test_demo_data_is_the_real_run() -> None:
    """The package carries a copy of what the tests use, byte for byte."""
    from tests.cli.runs import DATA

    copy = Path(__file__).parents[2] / "cli" / "prime_async_cli" / "demo_data"
    names = {path.name for path in DATA.iterdir()}
    assert {path.name for path in copy.iterdir()} == names
    for name in names:
        assert (copy / name).read_bytes() == (DATA / name).read_bytes()


def test_no_key_anywhere_names_both_ways_out() -> None:
    """Nothing is sent to a place the user did not choose."""
    ran = run_command("eval", "list")
    assert ran.code == 1
    assert "PRIME_API_KEY" in ran.err
    assert "local" in ran.err
