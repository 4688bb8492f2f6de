"""The reader of multipart bodies: the same parts however the body arrives."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_async.server.traces.multipart import MultipartError, MultipartReader, boundary_of
from tests.server.traces.uploads import form


class Parts:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.found: list[tuple[str, bytes, bool]] = []

    def begin(self, name: str, headers: Mapping[str, str]) -> None:
        assert headers["content-disposition"].startswith("form-data")
        self.found.append((name, b"", False))

    def content(self, piece: bytes) -> None:
        name, before, _ = self.found[-1]
        self.found[-1] = name, before + piece, False

    def end(self) -> None:
        name, content, _ = self.found[-1]
        self.found[-1] = name, content, True


def read(body: bytes, cuts: list[int]) -> list[tuple[str, bytes, bool]]:
    """Feed a body cut at places."""
    parts = Parts()
    reader = MultipartReader(b"border", parts)
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    for start, stop in pairwise(places):
        reader.feed(body[start:stop])
    reader.close()
    return parts.found


TRICKY = st.lists(
    st.sampled_from([b"\r\n", b"--border", b"\r\n--bord", b"--", b"\r", b"x", b"\n--border\r\n"])
).map(b"".join)


@settings(max_examples=200, deadline=None)
@given(TRICKY | st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=12))
def test_parts_do_not_depend_on_how_the_body_arrives(data: bytes, cuts: list[int]) -> None:
    """Content that looks like borders, cut anywhere."""
    if b"\r\n--border" in b"\r\n" + data:
        # That is a border.
        return
    found = read(form(data), cuts)
    assert found == [("metadata", b'{"schema_version": 1}', True), ("traces", data, True)]


def test_preamble_epilogue_and_padding_are_passed_over() -> None:
    """As the format allows them."""
    body = form(b"x").replace(b"--border\r\n", b"--border  \r\n", 1)
    assert read(b"hello\r\n" + body + b"bye", []) == read(form(b"x"), [])


@pytest.mark.parametrize("size", range(0, 200, 7))
def test_a_cut_body_is_noticed(size: int) -> None:
    """Wherever it ends before its last border."""
    with pytest.raises(MultipartError):
        read(form(b"x" * 20)[:size], [])


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain; boundary=b",
        "multipart/form-data",
        "multipart/mixed; boundary=b",
        f"multipart/form-data; boundary={'b' * 201}",
    ],
)
def test_a_content_type_without_a_boundary_is_refused(kind: str) -> None:
    """Or of another kind."""
    with pytest.raises(MultipartError):
        boundary_of(kind)


def test_a_quoted_boundary_is_unquoted() -> None:
    """As in the header of many clients."""
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"
