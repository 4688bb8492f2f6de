"""``prime-async sandbox exec --tty``: a terminal there that is the terminal here."""

from __future__ import annotations

import fcntl
import signal
import struct
import termios

import pytest

from prime_sync import Sandbox
from tests.cli.terminal import Terminal


def on_terminal(box: Sandbox, *words: str) -> Terminal:
    return Terminal(("sandbox", "exec", box.id, "--tty", "--", *words), columns=91, rows=17)


def test_keys_and_size_pass_through(box: Sandbox) -> None:
    """What is typed arrives, Ctrl-C included; a new size too; the exit code comes back."""
    script = "stty size; trap 'echo caught; exit 4' INT; read line; echo got $line; "
    script += "while sleep 0.05; do stty size; done"
    with on_terminal(box, script) as terminal:
        before = termios.tcgetattr(terminal.master)
        terminal.wait_for(b"17 91")
        terminal.type(b"hello\r")
        terminal.wait_for(b"got hello")
        fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        terminal.wait_for(b"30 100")
        terminal.type(b"\x03")
        assert terminal.end() == 4
        assert "caught" in terminal.text
        assert termios.tcgetattr(terminal.master) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_terminal_is_as_it_was_when_a_signal_ends_it(
    box: Sandbox, number: signal.Signals
) -> None:
    """Not only when the command ends by itself."""
    with on_terminal(box, "echo up; sleep 1000") as terminal:
        before = termios.tcgetattr(terminal.master)
        terminal.wait_for(b"up")
        assert termios.tcgetattr(terminal.master) != before
        terminal.process.send_signal(number)
        assert terminal.end() == 128 + number
        assert termios.tcgetattr(terminal.master) == before
