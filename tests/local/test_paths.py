"""Where the socket goes, and which folders are trusted."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from prime_async.errors import LocalPlatformError
from prime_async.local.paths import LocalPaths, private_directory


def test_no_home_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a home there is no place for a platform."""
    monkeypatch.setattr("prime_async.local.paths.home_directory", lambda: None)
    with pytest.raises(LocalPlatformError, match="HOME"):
        LocalPaths.find()


def test_usual_socket(tmp_path: Path) -> None:
    """It is beside the data where the path is short enough."""
    home = Path("/h")
    assert LocalPaths(home).socket() == home / ".prime/local/api.sock"


def test_long_home_uses_the_runtime_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two homes never share a socket, and one home always gets the same."""
    with tempfile.TemporaryDirectory(prefix="p", dir="/tmp") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        first, second = (LocalPaths(Path("/" + letter * 120)) for letter in "ab")
        assert first.socket() == first.socket()
        assert first.socket() != second.socket()
        assert str(first.socket()).startswith(runtime)


def test_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shared temporary folder, what others could have put in our way is passed over."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    trap = tmp_path / f"prime-async-{os.getuid()}"
    trap.mkdir(mode=0o777)
    trap.chmod(0o777)
    socket = LocalPaths(Path("/" + "h" * 120)).socket()
    assert socket is None or tmp_path not in socket.parents


def test_private_directory(tmp_path: Path) -> None:
    """A new or private folder is taken; an open one, a link, a file and a hopeless path are not."""
    assert private_directory(tmp_path / "new")
    assert private_directory(tmp_path / "new")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o750)
    assert not private_directory(tmp_path / "open")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    assert not private_directory(tmp_path / "link")
    (tmp_path / "file").touch()
    assert not private_directory(tmp_path / "file")
    assert not private_directory(tmp_path / "no" / "parent")


def test_open_data_folder_is_closed(home: Path) -> None:
    """A folder made by hand with the usual mode is made private."""
    paths = LocalPaths(home)
    paths.root.mkdir(parents=True)
    paths.root.chmod(0o755)
    paths.make()
    assert paths.root.stat().st_mode & 0o777 == 0o700
