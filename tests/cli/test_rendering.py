"""The small parts: texts, tables, documents, logs, the driver."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prime_async_cli.documents import document, line
from prime_async_cli.driver import drive, enter_loop
from prime_async_cli.tables import Column, cell, fitted_table, plain_table
from prime_async_cli.tailing import added, last_lines
from prime_async_cli.text import as_drawn, cell_width, harmless, pad, shorten, without_colour

COLUMNS = (
    Column("ID", "id", whole=True),
    Column("NAME", "name", drop=1),
    Column("N", "n", drop=2, right=True),
)


@given(st.text())
def test_harmless_text_is_one_printable_line(text: str) -> None:
    """Nothing is left that a terminal obeys; what was harmless stays."""
    shown = harmless(text)
    assert len(shown.splitlines()) <= 1
    assert not any(0x7F <= ord(each) < 0xA0 or ord(each) < 0x20 for each in shown)
    assert harmless(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\r\nc", r"a\tb\r\nc"),
        ("\x1b]0;title\x07", r"\e]0;title\x07"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("abc\u202ecba", r"abc\u202ecba"),
        ("[b + [/red] [link=x]y[/] {x} %s", "[b + [/red] [link=x]y[/] {x} %s"),
    ],
)
def test_what_harmless_text_looks_like(text: str, shown: str) -> None:
    """Written out, not removed: the reader sees what is there."""
    assert harmless(text) == shown
    assert harmless("a\n\tb", lines=True) == "a\n\tb"


@given(st.text(), st.integers(min_value=3, max_value=60))
def test_a_shortened_text_fits(text: str, width: int) -> None:
    """Never wider than asked, wide characters included."""
    short = shorten(harmless(text), width)
    assert cell_width(short) <= width
    assert cell_width(pad(short, width)) == width


def test_widths() -> None:
    """Wide, combining and zero-width characters."""
    widths = {"abc": 3, "日本": 4, "e\u0301": 1, "a\u200bb": 2, "": 0}
    assert {text: cell_width(text) for text in widths} == widths


def test_colours_of_other_programs_are_dropped() -> None:
    """Only colours; other sequences are left to be written out."""
    assert without_colour("\x1b[1;32mok\x1b[0m \x1b[2J") == "ok \x1b[2J"


def test_cells() -> None:
    """Values as a person reads them."""
    values = [None, "", True, False, 0.1 + 0.2, 1.0, 3, ["a", 1], [], {"a": [1]}, "x\ny"]
    shown = ["-", "-", "yes", "no", "0.3", "1", "3", "a, 1", "-", '{"a":[1]}', r"x\ny"]
    assert [cell(value) for value in values] == shown


@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.text("abc0", min_size=1, max_size=30), "name": st.text(), "n": st.integers()}
        ),
        max_size=5,
    ),
    st.integers(min_value=1, max_value=120),
)
def test_tables(rows: list[dict[str, object]], width: int) -> None:
    """One line per row; ids whole; on a screen no line is wider than it, unless an id is."""
    plain = plain_table(rows, COLUMNS).split("\n")[:-1]
    assert len(plain) == len(rows) + 1
    fitted, left_out = fitted_table(rows, COLUMNS, width, colour=False)
    lines = fitted.split("\n")[:-1]
    assert len(lines) == len(rows) + 2
    widest_id = max([2, *(len(str(row["id"])) for row in rows)])
    assert all(cell_width(each) <= max(width, widest_id) for each in lines)
    for each, row in zip(lines[2:], rows, strict=True):
        assert each.startswith(str(row["id"]))
    assert set(left_out) <= {"NAME", "N"}


def test_what_has_no_room_goes_in_the_stated_order() -> None:
    """The highest number first; shortened before anything is left out."""
    rows = [{"id": "a" * 10, "name": "b" * 50, "n": 1}]
    assert fitted_table(rows, COLUMNS, 40, colour=False)[1] == []
    assert fitted_table(rows, COLUMNS, 24, colour=False)[1] == ["N"]
    assert fitted_table(rows, COLUMNS, 12, colour=False)[1] == ["NAME", "N"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@given(JSON_VALUES)
def test_documents_are_json_without_anything_a_terminal_obeys(value: object) -> None:
    """Read back they are equal; escapes stand for control characters of either kind."""
    for text in (document(value), line(value)):
        assert json.loads(text) == value
        assert text.endswith("\n")
        assert not any(0x7F <= ord(each) < 0xA0 for each in text)
    assert line(value).count("\n") == 1


def test_a_line_that_draws_itself_anew() -> None:
    """A progress bar in a log: what a terminal shows in the end."""
    assert as_drawn("10%\r55%\r100%\r") == "100%"
    assert as_drawn("plain [x]") == "plain [x]"
    assert as_drawn("\r\r") == as_drawn("") == ""


def test_last_lines_of_a_file_read_blocks_from_its_end(tmp_path: Path) -> None:
    """More than one block, no line break at the end, fewer lines than asked, none."""
    file = tmp_path / "log"
    every = [f"{n} {'x' * 100}" for n in range(5_000)]
    file.write_text("\n".join(every), "utf-8")
    for count in (0, 1, 3, 1_000, 9_999):
        lines, position = last_lines(file, count)
        assert lines == (every[-count:] if count else [])
        assert position == file.stat().st_size


def test_added_lines_survive_a_rotation(tmp_path: Path) -> None:
    """Whole lines only; a new file of the same name is begun at its top."""
    file = tmp_path / "log"
    file.write_text("old\nhalf", "utf-8")
    lines = added(file, 4)
    file.write_text("old\nhalf a line\n", "utf-8")
    assert next(lines) == "half a line"
    file.rename(tmp_path / "log.1")
    file.write_text("fresh\n", "utf-8")
    assert next(lines) == "fresh"


def drive_until(signal_number: signal.Signals, cleaned: list[bool]) -> Callable[[], int]:
    async def command() -> int:
        await enter_loop()
        try:
            asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal_number)
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(True)
        return 0

    return lambda: drive(command())


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_cancels_the_command_and_lets_it_clean_up(
    number: signal.Signals, raised: type[BaseException]
) -> None:
    """The task is cancelled once, its clean-up runs to the end."""
    cleaned: list[bool] = []
    with pytest.raises(raised):
        drive_until(number, cleaned)()
    assert cleaned == [True]


def test_a_coroutine_without_waiting_needs_no_loop() -> None:
    """It ends in its first step; errors pass through as they are."""

    async def quick() -> int:
        return 7

    async def broken() -> int:
        raise LookupError("as it is")

    assert drive(quick()) == 7
    with pytest.raises(LookupError):
        drive(broken())
