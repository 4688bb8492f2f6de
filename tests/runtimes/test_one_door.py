"""Files of sandboxes are opened in one place, which is the one to look at."""

from __future__ import annotations

from pathlib import Path


def test_one_module_opens_sandbox_files() -> None:
    """What opens by name inside a sandbox goes through `rooted.py`."""
    folder = Path(__file__).parents[2] / "prime_async" / "server" / "runtimes"
    naming = {
        path.name
        for path in folder.glob("*.py")
        if "/proc/{" in (text := path.read_text()) and "/root" in text and "root" in path.name
    }
    assert naming <= {"rooted.py"}
