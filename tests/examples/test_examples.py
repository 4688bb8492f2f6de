"""Every example runs as it stands, in an empty home, on the embedded platform."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "background_jobs.py": (
        r"(epoch \d: loss \d\.\d{4}\n){5}0\.1 1\.2285 epoch 4: loss 3\.1381\n"
        r"0\.5 2\.9062 epoch 4: loss 0\.0088\n0\.9 3\.0000 epoch 4: loss 0\.0000\n"
    ),
    "bridge_logging.py": "",
    "bridge_opentelemetry.py": "",
    "bridge_prime_rl.py": "",
    "bridge_transformers.py": "",
    "bridge_verifiers.py": "",
    "plain_script.py": (
        r"20 samples stored; sums-tiny is evaluation \S+\n"
        r"20 samples stored; it holds 20, \{'reward': 0\.5\}\n"
        r"first failure: 0\n"
    ),
    "push_from_trainer.py": r"200 samples stored; sums is COMPLETED with \{'reward': 0\.5\}\n",
    "sandbox.py": (
        r"stdout: step 0\nstdout: step 1\nstdout: step 2\nweights after lr=0\.1\n"
        r"\[0, 1, 4, 9\]\n"
    ),
    "run_from_trainer.py": (
        r"completed: 66 of 66 records delivered\n"
        r"step 0: 20 traces, reward 0\.5\n"
        r"step 1: 20 traces, reward 0\.65\n"
        r"step 2: 20 traces, reward 0\.75\n"
    ),
    "run_script.py": (
        r"stopped: task 40 has no answer\n"
        r"failed: 80 of 80 records delivered\n"
        r"40 traces, reward 0\.5\n"
    ),
    "upload_traces.py": (
        r"\d batches, committed\n"
        r"(step \d: 20 traces, reward 0\.5\n){3}"
        r"(rollout-\d-7 says What is 7 \+ \d\?\n){3}"
        r"30 of them were right\n"
    ),
    "resume.py": (
        r"cut off \(out of memory\): push nightly-2026-12-01: 600 samples stored, .*\n"
        r"went on: 1000 samples stored, 4\d\d,\d{3} bytes sent this time\n"
    ),
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An empty home for all of them, whose platform is stopped in the end."""
    home = str(tmp_path_factory.mktemp("home"))
    own = {name: value for name, value in os.environ.items() if not name.startswith("PRIME_")}
    own |= {"HOME": home, "USERPROFILE": home}
    # Not installed for tests; a double calls its callbacks as it does.
    double = "from tests.bridges.transformers_double import *\n"
    Path(home, "transformers.py").write_text(double, "utf-8")
    own["PYTHONPATH"] = os.pathsep.join((home, str(EXAMPLES.parent)))
    yield own
    stop = "import asyncio; from prime_async import local; asyncio.run(local.stop(all=True))"
    subprocess.run([sys.executable, "-c", stop], env=own, check=True)


def test_every_example_is_here() -> None:
    """And short enough to be read in one go."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)
    for name in SAYS:
        assert len((EXAMPLES / name).read_text("utf-8").splitlines()) <= 55


@pytest.mark.parametrize("name", SAYS)
def test_it_runs_and_says_what_it_should(name: str, environment: dict[str, str]) -> None:
    """Without a warning, and without an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(SAYS[name], done.stdout), done.stdout
