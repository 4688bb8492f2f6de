"""What every test stands on: an empty home, no settings from outside, no way off this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.certs import Authority
from tests.loopback import refuse_outside
from tests.stub import Stub

_PROXY_AND_TLS = {
    "ALL_PROXY",
    "FTP_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NETRC",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "WSS_PROXY",
    "WS_PROXY",
}
_XDG = {
    "CACHE_HOME": ".cache",
    "CONFIG_HOME": ".config",
    "DATA_HOME": ".local/share",
    "STATE_HOME": ".local/state",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is meant to take long gets longer than what is not."""
    for item in items:
        long = item.get_closest_marker("slow") or item.get_closest_marker("scale")
        if long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        refuse_outside(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def _signals_work() -> None:
    """Background jobs ignore Ctrl-C, ``nohup`` hang-ups, and so would all that is started here."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders nobody has used; `mktemp` would look at all earlier ones each time."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def home(_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME of the field reports: empty, and no PRIME_*, proxy or TLS variable is set."""
    folder = next(_homes)
    folder.mkdir(mode=0o700)
    for name in list(os.environ):
        if name.upper().startswith("PRIME_") or name.upper() in _PROXY_AND_TLS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    for name, part in _XDG.items():
        monkeypatch.setenv(f"XDG_{name}", str(folder / part))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
    return folder


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    """STUB of the field reports, in the loop of the test."""
    async with Stub() as server:
        yield server


@pytest.fixture(scope="session")
def authority() -> Authority:
    """A certificate authority nobody trusts unless told to."""
    return Authority()
