"""Fixtures of the command line tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.cli.harness import Platform, PlatformThread, Ran


@pytest.fixture
def inside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Run a command line in this process: quicker where the process is not what is tested."""
    from prime_async_cli.app import main

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        with open(os.devnull) as nothing:
            monkeypatch.setattr(sys, "stdin", nothing)
            code = main(list(arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def running_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    thread = PlatformThread(tmp_path_factory.mktemp("platform") / "state")
    yield thread.start()
    thread.stop()


@pytest.fixture
def platform(running_platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """The platform the environment points at; what other tests stored is there too."""
    monkeypatch.setenv("PRIME_API_KEY", running_platform.key)
    monkeypatch.setenv("PRIME_API_BASE_URL", running_platform.url)
    return running_platform
