"""The loopback port: the same over restarts, and what happens when somebody else has it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prime_async import local
from prime_async.config import load_settings
from prime_async.errors import LocalPlatformError
from prime_async.local.ports import choose_port, holder, is_free


@contextmanager
def listener(port: int = 0) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", port)) as server:
        yield server.getsockname()[1]


def test_first_port_is_free_and_below_the_outgoing_range() -> None:
    """A port of the range for outgoing connections could be in use at the next start."""
    port, note = choose_port(None, None, chosen=False)
    assert 21_000 <= port < 30_000
    assert is_free(port)
    assert note is None


def test_port_from_before_is_kept() -> None:
    """Also when the user had chosen it; what he asks for now goes first."""
    first, second = (choose_port(None, None, chosen=False)[0] for _ in range(2))
    assert choose_port(None, first, chosen=False) == (first, None)
    assert choose_port(None, first, chosen=True) == (first, None)
    assert choose_port(second, first, chosen=True) == (second, None)


def test_chosen_port_that_is_taken_is_an_error_with_the_holder() -> None:
    """Nothing is moved behind the back of a user who named a port."""
    with listener() as port:
        for wanted, before in ((port, None), (None, port)):
            with pytest.raises(LocalPlatformError, match=f"port {port} is taken") as caught:
                choose_port(wanted, before, chosen=True)
            assert "--port" in str(caught.value)
            if Path("/proc/net/tcp").exists():
                assert f"(process {os.getpid()})" in str(caught.value)


def test_automatic_port_that_is_taken_moves_with_a_note() -> None:
    """Nobody named it: the platform starts, and says where it is now."""
    with listener() as taken:
        port, note = choose_port(None, taken, chosen=False)
    assert port != taken
    assert note is not None
    assert f"port {taken} is taken" in note
    assert f"moved to port {port}" in note


def test_holder_of_a_free_port() -> None:
    """Nobody is nobody."""
    port, _ = choose_port(None, None, chosen=False)
    assert holder(port) is None


async def test_move_reaches_the_clients(platform_home: Path) -> None:
    """After a move the context leads to the new port, and the old one does not come back."""
    first = await local.ensure_running()
    await local.stop()
    with listener(int(first.base_url.rpartition(":")[2])):
        second = await local.ensure_running()
    assert second.base_url != first.base_url
    assert "moved to port" in second.notes[0]
    assert load_settings(context="local").base_url == second.base_url
    await local.stop()
    assert (await local.ensure_running()).base_url == second.base_url


@pytest.mark.slow
async def test_chosen_port_stays_chosen(platform_home: Path) -> None:
    """A port named once is used again without being named, and never left without the user."""
    port, _ = choose_port(None, None, chosen=False)
    address = await local.ensure_running(port=port)
    assert address.base_url == f"http://127.0.0.1:{port}"
    with pytest.raises(LocalPlatformError, match=f"runs on port {port}, not on {port + 1}"):
        await local.ensure_running(port=port + 1)
    await local.stop()
    state = json.loads((platform_home / ".prime/local/state.json").read_text())
    assert (state["port"], state["port_chosen"]) == (port, True)
    with listener(port), pytest.raises(LocalPlatformError, match=f"port {port} is taken"):
        await local.ensure_running()
    assert (await local.ensure_running()).base_url == address.base_url
