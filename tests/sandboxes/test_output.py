"""What commands write, cut and counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from prime_async.sandboxes import output
from prime_async.sandboxes.output import LineCutter, Tail


def _cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(data[start : start + size])
        start += size
    return [*pieces, data[start:]]


@given(
    data=st.binary(max_size=400),
    sizes=st.lists(st.integers(0, 50), max_size=30),
    limit=st.integers(0, 300),
)
def test_a_tail_is_the_end_of_what_was_written(data: bytes, sizes: list[int], limit: int) -> None:
    """The last bytes up to the limit, and the true size."""
    tail = Tail(limit)
    for piece in _cut(data, sizes):
        tail.add(piece)
    assert tail.size == len(data)
    assert tail.data() == (data[-limit:] if limit else b"")
    assert tail.truncated == (len(data) > limit)


@given(text=st.text(max_size=200), limit=st.integers(1, 100))
def test_a_cut_text_has_no_broken_beginning(text: str, limit: int) -> None:
    """What is left is the end of the text, in whole characters."""
    data = text.encode("utf-8", "replace")
    tail = Tail(limit)
    tail.add(data)
    assert data.decode().endswith(tail.text())


@given(data=st.binary(max_size=300), sizes=st.lists(st.integers(0, 40), max_size=30))
def test_lines_are_the_bytes_and_the_text(data: bytes, sizes: list[int]) -> None:
    """However it arrives: the bytes joined are the input, each line ends where its newline is."""
    cutter = LineCutter("stdout")
    lines = [line for piece in _cut(data, sizes) for line in cutter.feed(piece)]
    lines += list(cutter.finish())
    assert b"".join(line.data for line in lines) == data
    for line in lines[:-1]:
        assert line.complete
        assert line.data.endswith(b"\n")
    assert not lines or lines[-1].complete == data.endswith(b"\n")


@given(text=st.text(alphabet="aé☕👩\u200d\n\r", max_size=200), sizes=st.lists(st.integers(1, 5)))
def test_text_is_never_garbled_by_pieces(text: str, sizes: list[int]) -> None:
    """Lines of text are the lines of the text."""
    cutter = LineCutter("stderr")
    lines = [line for piece in _cut(text.encode(), sizes) for line in cutter.feed(piece)]
    lines += list(cutter.finish())
    expected = [part.removesuffix("\r") for part in text.split("\n")[:-1]]
    rest = text.split("\n")[-1]
    assert [line.text for line in lines] == expected + ([rest] if rest else [])
    assert all(line.stream == "stderr" for line in lines)


def test_a_long_line_is_handed_on_in_parts() -> None:
    """In bounded memory, between characters."""
    cutter = LineCutter("stdout")
    data = "☕".encode() * (output.MAX_LINE // 2)
    parts = [part for piece in _cut(data, [65_536] * 30) for part in cutter.feed(piece)]
    parts += list(cutter.finish())
    assert len(parts) > 1
    assert not any(part.complete for part in parts)
    assert "".join(part.text for part in parts).encode() == data
    assert max(len(part.data) for part in parts) <= output.MAX_LINE + 65_536
