"""The same tests as an ordinary user: one path for root and user, so one list of attempts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_USER = 54321
_FOLDER = Path(__file__).parent

# The interpreter may lie below a home that only root can enter: shown in a private mount namespace.
_LAUNCH = """
import os, sys
from prime_async.server.runtimes.spawner import kernel
user, shown, *command = sys.argv[1:]
shown = [path for path in shown.split(":") if path]
kernel.unshare(kernel.CLONE_NEWNS)
kernel.make_mounts_private()
opened = [os.open(path, os.O_PATH) for path in shown]
for top in {"/" + path.split("/")[1] for path in shown}:
    if os.stat(top).st_mode & 0o5 != 0o5:
        kernel.mount_tmpfs(top)
for number, path in zip(opened, shown):
    os.makedirs(path, exist_ok=True)
    kernel.bind(number, path)
os.setgroups([])
os.setresgid(int(user), int(user), int(user))
os.setresuid(int(user), int(user), int(user))
os.chdir(os.environ["HOME"])
os.execv(command[0], command)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "module",
    [
        "test_escape.py",
        "test_limits.py",
        "test_adoption.py",
        "../server/sandboxes/test_checkpoints.py",
        "../server/sandboxes/test_volumes.py",
        "../server/sandboxes/test_jobs.py",
    ],
)
def test_an_ordinary_user_gets_the_same(module: str, refusal: str) -> None:
    """Every test that passes for root passes for a user, or says what is missing."""
    if os.geteuid() != 0:
        pytest.skip("this is an ordinary user already")
    if refusal:
        pytest.skip(f"no isolation on this machine: {refusal}")
    with tempfile.TemporaryDirectory(prefix="user-") as home:
        os.chown(home, _USER, _USER)
        done = subprocess.run(
            [
                *(sys.executable, "-c", _LAUNCH, str(_USER), sys.base_prefix),
                *(sys.executable, "-m", "pytest", str(_FOLDER / module), "-q"),
                *(
                    "-p",
                    "no:cacheprovider",
                    f"--basetemp={home}/pytest",
                    f"--rootdir={_FOLDER.parents[1]}",
                ),
                *("-c", str(_FOLDER.parents[1] / "pyproject.toml")),
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": home,
                "TMPDIR": home,
                "PYTHONDONTWRITEBYTECODE": "1",
                "LC_ALL": "C.UTF-8",
            },
            capture_output=True,
            text=True,
        )
        report = done.stdout[-3000:] + done.stderr[-2000:]
        if "could not be run" in report:
            pytest.skip("this machine keeps ordinary users from the interpreter")
        assert done.returncode == 0, report
        assert "no isolation on this machine" not in done.stdout, report
