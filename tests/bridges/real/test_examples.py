"""The examples of the bridges run beside the real packages."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples"
NEEDS = {"bridge_transformers.py": "transformers", "bridge_verifiers.py": "verifiers"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An empty home, whose platform is stopped in the end."""
    home = str(tmp_path_factory.mktemp("home"))
    own = {name: value for name, value in os.environ.items() if not name.startswith("PRIME_")}
    own |= {"HOME": home, "USERPROFILE": home}
    yield own
    stop = "import asyncio; from prime_async import local; asyncio.run(local.stop(all=True))"
    subprocess.run([sys.executable, "-c", stop], env=own, check=True)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("bridge_*.py")))
def test_it_runs(name: str, environment: dict[str, str]) -> None:
    """To its end, where it says that all has arrived."""
    needed = NEEDS.get(name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not here: make test-bridges")
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
