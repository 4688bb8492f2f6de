"""JSONL files: every line checked before anything is sent, sent as it stands, named when broken."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_async.errors import InvalidSampleError
from prime_async.evals import check_path, interrupted_pushes
from prime_async.evals import lines as lines_module
from tests.evals.pushing import Target, numbered, write_jsonl
from tests.official_stub import OfficialStub


async def _stored_of(target: Target, path: Path, **options: Any) -> list[dict[str, Any]]:
    receipt = await target.push(path, **options)
    assert receipt.complete
    return await target.stored()


@pytest.mark.parametrize(
    "content",
    [
        b'{"example_id": 0}\n{"example_id": 1}\n',
        b'{"example_id": 0}\n{"example_id": 1}',
        b'{"example_id": 0}\r\n{"example_id": 1}\r\n',
        b'\n\n{"example_id": 0}\n  \n\t\r\n{"example_id": 1}\n\n',
        b'\xef\xbb\xbf{"example_id": 0}\n{"example_id": 1}\n',
        b'  {"example_id": 0}  \n\t{"example_id": 1}\t\n',
    ],
    ids=["plain", "no last newline", "CRLF", "blank lines", "BOM", "white space"],
)
async def test_forms_of_files(target: Target, tmp_path: Path, content: bytes) -> None:
    """Line ends, blank lines, a byte order mark and white space around lines do not matter."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    assert await _stored_of(target, path) == [{"example_id": 0}, {"example_id": 1}]


async def test_lines_are_sent_byte_for_byte(
    official: OfficialStub, official_target: Target, tmp_path: Path
) -> None:
    """Numbers, escapes, double keys and spaces of a valid line reach the wire untouched."""
    lines = [
        r'{"a": 1.10, "b": 1e2, "big": 123456789012345678901234567890}',
        r'{"esc": "\u00e9\/\n", "a" :  [ 1 , 2 ], "x": 1, "x": 2}',
    ]
    await official_target.push(write_jsonl(tmp_path / "rows.jsonl", lines))
    (post,) = official.seen("POST", ".*/samples")
    assert post.body == b'{"samples":[' + ",".join(lines).encode() + b"]}"


async def test_nan_becomes_null_and_is_counted(target: Target, tmp_path: Path) -> None:
    """NaN as the standard library writes it: null, counted where it is a score."""
    rows = [
        {"example_id": 0, "reward": 1.0},
        {"example_id": 1, "reward": float("nan"), "metrics": {"a": float("inf"), "b": 1}},
        {"example_id": 2, "reward": float("-inf"), "info": {"deep": [float("nan")]}},
    ]
    receipt = await target.push(write_jsonl(tmp_path / "rows.jsonl", rows))
    assert receipt.nonfinite == {"reward": 2, "metrics.a": 1}
    assert await target.stored() == [
        {"example_id": 0, "reward": 1.0},
        {"example_id": 1, "reward": None, "metrics": {"a": None, "b": 1}},
        {"example_id": 2, "reward": None, "info": {"deep": [None]}},
    ]


async def test_strict_refuses_the_line_by_path(target: Target, tmp_path: Path) -> None:
    """With strict that sample is refused and named; the others go on."""
    rows = [{"example_id": 0}, {"example_id": 1, "info": {"x": [float("nan")]}}, {"example_id": 2}]
    receipt = await target.push(write_jsonl(tmp_path / "rows.jsonl", rows), strict=True)
    assert [(one.index, one.path) for one in receipt.refused] == [(1, "samples[1].info.x[0]")]
    assert await target.ids() == [0, 2]
    assert receipt.stored == ((0, 1), (2, 3))


async def test_id_becomes_example_id_in_result_folders_only(target: Target, tmp_path: Path) -> None:
    """Beside its metadata a results file has `id` copied; other files are left alone."""
    rows = [{"id": 7, "a": "é"}, {"id": 8, "example_id": 80}, {"a": 1}, {"id": 9, "reward": NAN}]
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metadata.json").write_text('{"env": "e", "model": "m"}')
    write_jsonl(folder / "results.jsonl", rows)
    mapped = [
        {"example_id": 7, "id": 7, "a": "é"},
        {"id": 8, "example_id": 80},
        {"a": 1},
        {"example_id": 9, "id": 9, "reward": None},
    ]
    for number, path in enumerate((folder, folder / "results.jsonl", str(folder)), 1):
        await target.push(path)
        assert await target.stored() == mapped * number
    own = write_jsonl(tmp_path / "results.jsonl", rows)
    await target.push(own)
    assert (await target.stored())[-4:] == [*rows[:3], {"id": 9, "reward": None}]


NAN = float("nan")

BROKEN = [
    ('{"a": 1', "rows.jsonl:2:8: not JSON"),
    ("{'a': 1}", "rows.jsonl:2:2: not JSON"),
    ('   {"a": nope}', "rows.jsonl:2:10: not JSON"),
    ('{"a": 1} {"b": 2}', "rows.jsonl:2:10: not JSON"),
    ("[1, 2]", "rows.jsonl:2:1: a JSON array, not an object"),
    ('"text"', "rows.jsonl:2:1: a JSON text, not an object"),
    ("5", "rows.jsonl:2:1: a JSON number, not an object"),
    ("null", "rows.jsonl:2:1: a JSON null, not an object"),
    ("NaN", "rows.jsonl:2:1: a JSON number, not an object"),
    ('{"a": ' + "[" * 100_000, "rows.jsonl:2:1: nested too deeply"),
    ('{"a": ' + "1" * 5000 + "}x", "rows.jsonl:2"),
]


@pytest.mark.parametrize(("line", "said"), BROKEN, ids=[said for _, said in BROKEN])
async def test_a_broken_line_is_named_and_nothing_is_sent(
    official: OfficialStub, official_target: Target, tmp_path: Path, line: str, said: str
) -> None:
    """File, line and column are in the message; no request was made, nothing is kept on disk."""
    path = write_jsonl(tmp_path / "rows.jsonl", ['{"fine": 1}', line, '{"fine": 2}'])
    with pytest.raises(InvalidSampleError) as caught:
        await official_target.push(path)
    assert said in str(caught.value)
    assert caught.value.field == "samples"
    assert official.requests == []
    assert interrupted_pushes() == []


async def test_bytes_that_are_no_text_are_named(
    official: OfficialStub, official_target: Target, tmp_path: Path
) -> None:
    """A line that is not UTF-8 is broken, even where JSON would not look inside."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "\xff"}\n')
    with pytest.raises(InvalidSampleError, match=r"rows\.jsonl:2:8: not UTF-8"):
        await official_target.push(path)
    path.write_bytes('{"a": 1}\n'.encode("utf-16"))
    with pytest.raises(InvalidSampleError, match=r"rows\.jsonl:1:1: not UTF-8"):
        await official_target.push(path)
    assert official.requests == []


async def test_many_broken_lines_are_counted(official_target: Target, tmp_path: Path) -> None:
    """The first five are shown, the others counted, however many there are."""
    path = write_jsonl(tmp_path / "rows.jsonl", ["{", '{"a": 1}'] * 1000)
    with pytest.raises(InvalidSampleError) as caught:
        await official_target.push(path)
    assert str(caught.value).count("rows.jsonl:") == 5
    assert "and 995 more" in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: (path.write_text("{}"), path.chmod(0)),
    ],
    ids=["missing", "folder", "pipe", "unreadable"],
)
async def test_what_is_no_file(
    official: OfficialStub, official_target: Target, tmp_path: Path, make: Any
) -> None:
    """Missing, an empty folder, a pipe, no permission: said at once, nothing sent."""
    path = tmp_path / "rows.jsonl"
    made = make(path)
    if made is not None and os.access(path, os.R_OK):
        pytest.skip("this user reads everything")
    async with asyncio.timeout(5):
        with pytest.raises((InvalidSampleError, ValueError), match=r"rows\.jsonl"):
            await official_target.push(path)
    assert official.requests == []


async def test_a_line_without_end_does_not_fill_the_memory(
    official_target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line longer than the limit is refused by number before it is read to its end."""
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 2**20)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n' + b"x" * (2**20 + 1))
    with pytest.raises(InvalidSampleError, match=r"line 2 is longer than 1 MiB"):
        await official_target.push(path)


async def test_a_file_that_changed_before_it_is_sent(
    official: OfficialStub, official_target: Target, tmp_path: Path
) -> None:
    """Rewritten between the check and the sending: nothing unchecked reaches the wire."""
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(100))

    def rewrite(_: Any) -> Any:
        path.write_text("{broken\n" * 100)
        from tests.stub import Answer

        return Answer(404, json={"detail": "no such push"})

    official.route("GET", "/api/v1/evaluations/[^/]+/pushes/[^/]+", rewrite)
    with pytest.raises(InvalidSampleError, match="changed while it was read"):
        await official_target.push(path, push_id="again")
    assert official.seen("POST", ".*/samples") == []


async def test_a_file_that_grows_while_it_is_sent(target: Target, tmp_path: Path) -> None:
    """Lines added meanwhile were not checked and are not sent; the change is an error."""
    path = write_jsonl(tmp_path / "rows.jsonl", numbered(400, size=10_000))

    def grow(_: int) -> None:
        with path.open("a") as file:
            file.write("{half a line")

    with pytest.raises(InvalidSampleError, match="changed while it was read") as caught:
        await target.push(path, max_concurrent=1, progress_callback=grow)
    ids = await target.ids()
    assert ids == list(range(len(ids)))
    assert f"{len(ids)} samples stored" in caught.value.__notes__[0]


def test_check_path_tells_what_a_push_would_meet(tmp_path: Path) -> None:
    """How many samples, which are too large by line and index, before anything is created."""
    rows = ["", '{"a": 1}', json.dumps({"a": "x" * 500}), "", '{"a": 2}']
    check = check_path(write_jsonl(tmp_path / "rows.jsonl", rows), max_payload_bytes=400)
    assert check.samples == 3
    assert [(one.line, one.index) for one in check.oversized] == [(3, 1)]
    assert check.oversized[0].size == len(rows[2])


LINES = st.one_of(
    st.dictionaries(st.sampled_from(["id", "example_id", "reward", "é"]), st.integers()).map(
        json.dumps
    ),
    st.just('{"reward": NaN}'),
    st.just('{"reward": -Infinity, "id": 3}'),
    st.just(r'{"half": "\ud800"}'),
    st.just(""),
    st.just(" \t"),
    st.text("☕x", max_size=80).map(lambda text: json.dumps({"t": text}, ensure_ascii=False)),
)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(LINES, max_size=30), ending=st.sampled_from(["\n", "\r\n"]), last=st.booleans()
)
def test_a_file_is_the_list_of_its_lines(
    tmp_path: Path, rows: list[str], ending: str, last: bool
) -> None:
    """Checking counts what reading gives, and reading gives what the lines mean."""
    from prime_async.evals.encoding import SampleEncoder
    from prime_async.evals.files import JsonlSource
    from prime_async.spool import Ranges

    path = tmp_path / "rows.jsonl"
    path.write_bytes((ending.join(rows) + (ending if last else "")).encode())
    encoder = SampleEncoder(limit=120)
    source = JsonlSource(path, encoder, Ranges())
    check = source.check()
    got: dict[int, Any] = {}
    while (chunks := asyncio.run(source.next_chunks())) is not None:
        for chunk in chunks:
            got |= {index: json.loads(data) for index, data in chunk.samples()}
    meant = [_meaning(row) for row in rows if row.strip()]
    refused = {refusal.index: refusal.size for refusal in encoder.refused}
    assert check.samples == len(meant)
    assert {one.index: one.size for one in check.oversized} == refused
    assert got == {index: row for index, row in enumerate(meant) if index not in refused}


def _meaning(row: str) -> Any:
    text = row.replace("-Infinity", "null").replace("NaN", "null").replace(r"\ud800", "�")
    return json.loads(text)


async def test_FR39_resuming_a_file_reads_on_where_it_stopped(
    target: Target, tmp_path: Path
) -> None:
    """Samples the platform holds are passed over, oversized ones stay refused, order stays."""
    rows = numbered(60)
    rows[10]["answer"] = "x" * 900
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    first = random.Random(5).sample([index for index in range(60) if index != 10], 20)
    for index in first:  # as an interrupted push with many batches on their way leaves it
        transport = await target.client.api_client.connect()
        await transport.request(
            "POST",
            f"/evaluations/{target.evaluation_id}/samples",
            json={"samples": [rows[index]]},
            headers={"X-Prime-Push": "p1", "X-Prime-Range": f"{index}-{index + 1}"},
        )
    receipt = await target.push(path, push_id="p1", max_payload_bytes=500)
    assert [refusal.index for refusal in receipt.refused] == [10]
    assert await target.ids() == [index for index in range(60) if index != 10]
    assert receipt.samples_pushed == 59
