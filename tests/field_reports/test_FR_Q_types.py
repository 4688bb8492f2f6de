"""Field reports, group Q: what a type checker sees of the package as it is shipped.

Builds and installs it anew, so it needs the package index: ``make test-scale`` runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.scale, pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = """
import asyncio
from collections.abc import AsyncIterator
from typing import Any, assert_type

import prime_async
import prime_sync
from prime_async import Evaluation, PushReceipt


async def trainer() -> None:
    async with prime_async.AsyncEvalsClient(api_key="k") as client:
        made = await client.create_evaluation("run", dataset="d")
        assert_type(made, Evaluation)
        assert_type(made.evaluation_id, str | None)
        receipt = await client.push_samples("e", [{"reward": 1.0}])
        assert_type(receipt, PushReceipt)
        assert_type(receipt.samples_pushed, int)
        assert_type(receipt.resume_token, str | None)
        assert_type(client.iter_samples("e"), AsyncIterator[dict[str, Any]])
        await client.get_samples("e", page="{page}")


def script() -> None:
    with prime_sync.EvalsClient(api_key="k") as client:
        assert_type(client.create_evaluation("run", dataset="d"), Evaluation)
        assert_type(client.push_samples("e", [{"reward": 1.0}]), PushReceipt)
        for sample in client.iter_samples("e"):
            assert_type(sample, dict[str, Any])
        client.finalize_evaluation("e", metrics={"accuracy": 0.5})


asyncio.run(trainer())
script()
"""
"""One deliberate mistake: a page is a number."""


def attempt(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program that sees nothing of the source tree."""
    leading_here = ("PYTHONPATH", "MYPYPATH")
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name not in leading_here},
        check=False,
    )


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program that has to succeed."""
    done = attempt(*command, cwd=cwd)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def environment(folder: Path) -> Path:
    """Make an empty environment and return its interpreter."""
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The source distribution, and the wheel that is built from the tree."""
    folder = tmp_path_factory.mktemp("build")
    python = environment(folder / "builder")
    run(python, "-m", "pip", "install", "-q", "hatchling==1.27.0")
    run(python, "-m", "hatchling", "build", "-d", folder / "dist", cwd=ROOT)
    found = sorted((folder / "dist").iterdir())
    assert len(found) == 2
    return found


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(
    request: pytest.FixtureRequest,
    artifacts: list[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The interpreter of a clean environment that has nothing but the package."""
    ending = ".whl" if request.param == "wheel" else ".tar.gz"
    [artifact] = [path for path in artifacts if path.name.endswith(ending)]
    python = environment(tmp_path_factory.mktemp(request.param) / "env")
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", artifact)
    return python


def test_FR58_the_wrong_argument_is_the_only_error(installed: Path, tmp_path: Path) -> None:
    """``mypy --strict`` over a script of a user: typed in both faces, one mistake, one error."""
    script = tmp_path / "user.py"
    script.write_text(SCRIPT)
    line = 1 + SCRIPT[: SCRIPT.index('page="{page}"')].count("\n")
    checker = (sys.executable, "-m", "mypy", "--strict", "--python-executable", installed)
    done = attempt(*checker, script, cwd=tmp_path)
    errors = [each for each in done.stdout.splitlines() if ": error: " in each]
    assert len(errors) == 1, done.stdout + done.stderr
    assert errors[0].startswith(f'user.py:{line}: error: Argument "page"')


def test_FR58_public_results_hold_no_any(installed: Path, tmp_path: Path) -> None:
    """What the calls of a script return is typed all the way, but for what users put in."""
    script = tmp_path / "user.py"
    script.write_text(SCRIPT.replace('page="{page}"', "page=1"))
    plain = ["--strict", "--disallow-any-unimported", "--warn-unreachable"]
    run(
        *(sys.executable, "-m", "mypy", *plain, "--python-executable", installed, script),
        cwd=tmp_path,
    )


def test_FR58_it_works_where_nothing_else_is(installed: Path, tmp_path: Path) -> None:
    """The command and both packages, from a folder that has nothing to do with the source."""
    said = run(installed.parent / "prime-async", "--version", cwd=tmp_path)
    assert said.startswith("prime-async ")
    names = "prime_async, prime_sync, prime_async_cli"
    shown = run(installed, "-c", f"import {names}; print(prime_async.__file__)", cwd=tmp_path)
    assert "site-packages" in shown
    absent = "import importlib.util as u; print([u.find_spec(n) for n in ('cli', 'tests', 'tui')])"
    assert run(installed, "-c", absent, cwd=tmp_path).strip() == "[None, None, None]"


def test_FR58_the_marker_is_shipped(artifacts: list[Path]) -> None:
    """``py.typed`` in every package, in both forms; the generator and the tests are left out."""
    packages = ("prime_async", "prime_sync", "prime_async_cli")
    for path in artifacts:
        names = _names(path)
        for package in packages:
            assert any(name.endswith(f"{package}/py.typed") for name in names), (path, package)
        if path.suffix == ".whl":
            tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
            assert tops == set(packages)
            assert not any("_generate" in name for name in names)


def _names(path: Path) -> list[str]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.namelist()
    with tarfile.open(path) as source:
        return source.getnames()
