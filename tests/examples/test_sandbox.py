"""``examples/sandbox.py`` does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.platform import ProcessPlatform
from tests.server.sandboxes.usable import needs_bubblewrap

EXAMPLE = Path(__file__).parents[2] / "examples" / "sandbox.py"
SAID = """stdout: step 0
stdout: step 1
stdout: step 2
weights after lr=0.1
[0, 1, 4, 9]
"""


@needs_bubblewrap
def test_the_example_runs(tmp_path: Path) -> None:
    """Against the embedded platform; it leaves no sandbox behind."""
    with ProcessPlatform(tmp_path) as platform:
        env = {**os.environ, "PRIME_API_KEY": platform.key, "PRIME_API_BASE_URL": platform.url}
        command = [sys.executable, str(EXAMPLE)]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert (ran.stdout, ran.stderr) == (SAID, "")
        assert alive(platform) == []


def alive(platform: ProcessPlatform) -> list[str]:
    from prime_sync import SandboxClient

    with SandboxClient(api_key=platform.key, base_url=platform.url) as client:
        found = client.list(exclude_terminated=True)
        return [sandbox.id for sandbox in found.sandboxes]
