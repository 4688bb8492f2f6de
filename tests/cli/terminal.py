"""A pseudo-terminal for one command: what a person would see, keys included."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.cli.harness import COMMAND

LIMIT = 30.0


@dataclass
class Terminal:
    """Runs the installed command on a terminal of its own.

    Streams can be left off the terminal: ``stdout=subprocess.PIPE`` is what ``| cat`` does.
    """

    arguments: tuple[str, ...]
    columns: int = 80
    rows: int = 24
    env: dict[str, str] | None = None
    stdout: int | None = None
    screen: bytes = b""

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        size = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
        self.process = subprocess.Popen(
            [COMMAND, *self.arguments],
            stdin=slave,
            stdout=slave if self.stdout is None else self.stdout,
            stderr=slave,
            env={**_plain_environment(), "TERM": "xterm", **(self.env or {})},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)

    @property
    def master(self) -> int:
        """The side of whoever looks: its attributes are those of the terminal."""
        return self._master

    def wait_for(self, text: bytes) -> None:
        """Read until the text is on the screen."""
        self._read_until(lambda: text in self.screen, f"{text!r} did not appear")

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    def end(self) -> int:
        """Read to the end and return the exit code."""
        self._read_until(lambda: self.process.poll() is not None, "it does not end")
        self._read_rest()
        return self.process.returncode

    def _read_until(self, done: object, complaint: str) -> None:
        assert callable(done)
        deadline = time.monotonic() + LIMIT
        while not done():
            assert time.monotonic() < deadline, f"{complaint}: {self.screen!r}"
            self._read(0.05)

    def _read_rest(self) -> None:
        while self._read(0.05):
            pass

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux: everybody has left the other side
            return False
        self.screen += data
        return bool(data)

    @property
    def text(self) -> str:
        return self.screen.decode("utf-8", "replace").replace("\r\n", "\n")


def _plain_environment() -> dict[str, str]:
    """The environment without what speaks over the terminal: the test runner sets COLUMNS."""
    speaking = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}
    return {name: value for name, value in os.environ.items() if name not in speaking}
