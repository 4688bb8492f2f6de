"""Importing the configuration is cheap and has no effects."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "aiohttp",
    "anyio",
    "asyncio",
    "msgspec",
    "rich",
    "sqlalchemy",
    "urwid",
    "difflib",
    "fcntl",
    "random",
    "hashlib",
)


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_nothing_heavy_is_imported() -> None:
    """Neither the network stack nor anything else that costs a start is loaded."""
    script = (
        "import sys, prime_async.config, prime_async.signals\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert run(script) == "[]"


def test_FR48_import_and_use_without_posix_modules() -> None:
    """With fcntl, termios, pwd, resource and curses blocked, reading and writing work."""
    script = (
        "import sys, tempfile, pathlib\n"
        "for name in ('fcntl', 'termios', 'pwd', 'resource', 'curses'): sys.modules[name] = None\n"
        "from prime_async.config import ConfigStore, load_settings\n"
        "import prime_async.local, prime_async.signals\n"
        "home = pathlib.Path(tempfile.mkdtemp())\n"
        "ConfigStore(home).update({'api_key': 'sk-1'})\n"
        "print(load_settings(home=home, environ={}).api_key)\n"
        "from prime_async.config import home_directory\n"
        "print(home_directory({}))\n"
    )
    assert run(script).splitlines() == ["sk-1", "None"]


def test_FR06_import_has_no_effects() -> None:
    """No socket, thread, exit hook or file comes into being at import."""
    script = (
        "import atexit, os, socket, sys, threading\n"
        "import asyncio, json, ssl, urllib.parse, dataclasses, pathlib, random, secrets\n"
        "seen = []\n"
        "atexit.register = lambda *a, **k: seen.append('atexit')\n"
        "threading.Thread.start = lambda self: seen.append('thread')\n"
        "socket.socket = lambda *a, **k: seen.append('socket')\n"
        "import prime_async.config, prime_async.local, prime_async.signals\n"
        "print(seen, os.listdir(os.environ['HOME']))"
    )
    assert run(script) == "[] []"
