"""Fixtures of the command line tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.harness import CANARY, Ran
from tests.platform import ThreadedPlatform
from tests.stub import Stub, stub_in_thread

if TYPE_CHECKING:
    from prime_sync import Sandbox


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


@pytest.fixture
def through(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """As `inside`, for commands that write past Python's streams; standard input is nothing."""
    from prime_async_cli.app import main

    def run(*arguments: str) -> Ran:
        capfd.readouterr()
        with open(os.devnull) as nothing:
            monkeypatch.setattr(sys, "stdin", nothing)
            code = main(list(arguments))
        captured = capfd.readouterr()
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


@pytest.fixture
def sandboxes(platform: str, home: Path) -> str:
    """The platform, where it can run sandboxes; skipped with the reason where it cannot."""
    reason = _why_no_sandboxes(platform)
    if reason:
        pytest.skip(reason)
    return platform


@cache
def _why_no_sandboxes(url: str) -> str:
    """Try one: the platform tells why it cannot."""
    from prime_async.errors import SandboxNotRunningError
    from prime_sync import CreateSandboxRequest, SandboxClient

    with SandboxClient(api_key=CANARY, base_url=url) as client:
        try:
            with client.sandbox(CreateSandboxRequest(name="probe", docker_image="ubuntu:24.04")):
                return ""
        except SandboxNotRunningError as error:
            if error.error_type != "RUNTIME_UNAVAILABLE":
                raise
            return str(error)


@pytest.fixture(scope="session")
def shared_box(shared_platform: ThreadedPlatform) -> Iterator[list[Sandbox]]:
    """A place for the one sandbox that most tests share; made by the first that needs it."""
    from prime_sync import SandboxClient

    made: list[Sandbox] = []
    yield made
    with SandboxClient(api_key=CANARY, base_url=shared_platform.url) as client:
        for sandbox in made:
            client.delete(sandbox.id)


@pytest.fixture
def box(sandboxes: str, shared_box: list[Sandbox]) -> Sandbox:
    """A sandbox that runs; its files are those other tests left."""
    from prime_sync import CreateSandboxRequest, SandboxClient

    if not shared_box:
        with SandboxClient() as client:
            request = CreateSandboxRequest(name="shared", docker_image="python:3.11")
            shared_box.append(client.create(request))
            client.wait_for_creation(shared_box[0].id)
    return shared_box[0]
