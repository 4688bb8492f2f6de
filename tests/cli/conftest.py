"""Fixtures of the command line tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.cli.harness import CANARY, Ran
from tests.platform import ThreadedPlatform
from tests.stub import Stub, stub_in_thread


@pytest.fixture
def inside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Run a command line in this process: quicker where the process is not what is tested."""
    from prime_async_cli import streams
    from prime_async_cli.app import main

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        with open(os.devnull) as nothing:
            monkeypatch.setattr(sys, "stdin", nothing)
            streams.prepare()
            code = main(list(arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def shared_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedPlatform]:
    folder = tmp_path_factory.mktemp("platform")
    with ThreadedPlatform(folder, api_key=CANARY) as platform:
        yield platform


@pytest.fixture
def platform(shared_platform: ThreadedPlatform, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a platform the environment points at; what other tests stored is there too."""
    monkeypatch.setenv("PRIME_API_KEY", CANARY)
    monkeypatch.setenv("PRIME_API_BASE_URL", shared_platform.url)
    return shared_platform.url


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A server in a thread that answers as told, and the environment points at it."""
    with stub_in_thread() as server:
        monkeypatch.setenv("PRIME_API_KEY", CANARY)
        monkeypatch.setenv("PRIME_API_BASE_URL", server.url)
        yield server
