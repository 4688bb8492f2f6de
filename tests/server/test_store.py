"""The store by itself: migrations, group commit, full disks, broken files."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, MetaData, create_engine
from sqlalchemy.exc import IntegrityError, OperationalError

from prime_async.errors import LocalPlatformError
from prime_async.server.failures import RequestError
from prime_async.server.store.database import Database
from prime_async.server.store.migrations import MIGRATIONS, Migration, migrate
from prime_async.server.store.schema import metadata
from tests.platform import running_platform
from tests.server.wire import Wire

MIB = 1024 * 1024


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """An open database with one more table."""
    opened = Database(tmp_path / "test.sqlite3")
    await opened.open()
    await opened.write(
        lambda writer: writer.exec_driver_sql("CREATE TABLE things (id INTEGER PRIMARY KEY)")
    )
    try:
        yield opened
    finally:
        await opened.close()


def add(number: int) -> Any:
    """A write of one row."""

    def write(writer: Connection) -> int:
        writer.exec_driver_sql("INSERT INTO things VALUES (?)", (number,))
        return number

    return write


def things(database: Database) -> list[int]:
    return database.point(
        lambda reader: [
            row[0] for row in reader.exec_driver_sql("SELECT id FROM things ORDER BY id")
        ]
    )


def test_migrations_make_the_tables_of_the_schema(tmp_path: Path) -> None:
    """Columns, keys, indexes and unique constraints of both are the same."""
    engines = [create_engine(f"sqlite:///{tmp_path / name}") for name in ("migrated", "made")]
    with engines[0].connect() as connection:
        migrate(connection)
    metadata.create_all(engines[1])
    assert _description(engines[0]) == _description(engines[1])
    for engine in engines:
        engine.dispose()


def _description(engine: Any) -> dict[str, Any]:
    found = MetaData()
    # Full-text tables exist in SQLite only, and are made by statements of their own.
    found.reflect(engine, only=lambda name, _: not name.startswith("trace_words"))
    return {
        table.name: (
            [(column.name, str(column.type), column.nullable) for column in table.columns],
            [column.name for column in table.primary_key],
            sorted(
                (index.name, [c.name for c in index.columns], index.unique)
                for index in table.indexes
            ),
            sorted(
                [c.name for c in constraint.columns]
                for constraint in table.constraints
                if type(constraint).__name__ == "UniqueConstraint"
            ),
        )
        for table in found.tables.values()
        if not table.name.startswith("sqlite_")
    }


def test_migrations_are_numbered_from_one() -> None:
    """The number in the database says which steps it has."""
    assert [one.number for one in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_a_migration_that_fails_leaves_the_last_whole_step(tmp_path: Path) -> None:
    """Its statements and its number are one transaction; the next start tries again."""
    engine = create_engine(f"sqlite:///{tmp_path / 'db'}", connect_args={"isolation_level": None})
    broken = Migration(2, "broken", ("CREATE TABLE new (id INTEGER)", "NONSENSE"))
    with engine.connect() as connection:
        with pytest.raises(Exception, match="NONSENSE"):
            migrate(connection, (MIGRATIONS[0], broken))
        assert connection.exec_driver_sql("PRAGMA user_version").scalar() == 1
        better = Migration(2, "better", ("CREATE TABLE new (id INTEGER)",))
        assert migrate(connection, (MIGRATIONS[0], better)) == 2
    engine.dispose()


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    """An older program must not write where a newer one has been."""
    path = tmp_path / "db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA user_version = 999")
        connection.commit()
    engine.dispose()
    with pytest.raises(LocalPlatformError, match="version 999") as caught:
        await Database(path).open()
    assert "upgrade" in str(caught.value)


@pytest.mark.parametrize("kind", ["not a database", "a folder", "in a file"])
async def test_what_is_not_a_database_is_refused_and_kept(tmp_path: Path, kind: str) -> None:
    """The error names the file and what to check."""
    path = tmp_path / "db"
    if kind == "not a database":
        path.write_bytes(b"hello" * 1000)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.write_bytes(b"x")
        path = path / "db"
    with pytest.raises(LocalPlatformError, match="cannot open") as caught:
        await Database(path).open()
    assert str(path) in str(caught.value)
    assert caught.value.hint
    assert ("damaged" in caught.value.hint) == (kind == "not a database")
    if kind == "not a database":
        assert path.read_bytes() == b"hello" * 1000


async def test_writes_at_the_same_moment_share_commits(database: Database) -> None:
    """Many submitters wait together for few transactions, and each gets its own result."""
    before = database.writer.commits
    results = await asyncio.gather(*(database.write(add(number)) for number in range(2000)))
    assert results == list(range(2000))
    assert things(database) == list(range(2000))
    assert database.writer.commits - before < 200
    assert database.writer.waiting == 0


async def test_a_failing_write_is_undone_alone(database: Database) -> None:
    """The others of its group are committed; the failure reaches its submitter only."""
    gate = threading.Event()
    first = asyncio.ensure_future(database.write(lambda _: gate.wait(10)))

    def half(writer: Connection) -> None:
        add(100)(writer)
        add(1)(writer)

    group = [
        asyncio.ensure_future(database.write(write))
        for write in (add(1), half, add(2), add(2), add(3))
    ]
    await asyncio.sleep(0)  # all are queued behind the first one
    gate.set()
    assert await first
    outcomes = await asyncio.gather(*group, return_exceptions=True)
    assert [isinstance(one, IntegrityError) for one in outcomes] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert things(database) == [1, 2, 3]


async def test_a_write_alone_that_fails_leaves_nothing(database: Database) -> None:
    """Also without a group around it."""

    def write(writer: Connection) -> None:
        add(1)(writer)
        raise RequestError(409, "conflict", "no")

    with pytest.raises(RequestError, match="no"):
        await database.write(write)
    assert things(database) == []


async def test_a_cancelled_submitter_does_not_stop_the_writer(database: Database) -> None:
    """Its write may be carried out; the ones behind it are not disturbed."""
    gate = threading.Event()
    first = asyncio.ensure_future(database.write(lambda _: gate.wait(10)))
    gone = asyncio.ensure_future(database.write(add(1)))
    await asyncio.sleep(0)
    gone.cancel()
    last = asyncio.ensure_future(database.write(add(2)))
    await asyncio.sleep(0)
    gate.set()
    assert await last == 2
    assert await first
    assert gone.cancelled()
    assert things(database) == [1, 2]


async def test_a_lost_connection_is_replaced(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When even the rollback fails, the writes of the group fail and the next ones go on."""
    real = Connection.rollback

    def broken(connection: Connection) -> None:
        monkeypatch.setattr(Connection, "rollback", real)
        raise OperationalError("ROLLBACK", None, Exception("disk I/O error"))

    def write(writer: Connection) -> None:
        add(1)(writer)
        monkeypatch.setattr(Connection, "rollback", broken)
        raise RequestError(409, "conflict", "no")

    with pytest.raises(RequestError):
        await database.write(write)
    assert await database.write(add(2)) == 2
    assert things(database) == [2]


async def test_a_database_that_another_program_holds_is_a_503(tmp_path: Path) -> None:
    """Locked for longer than the wait: the write is refused whole, and works again afterwards."""
    database = Database(tmp_path / "db", lock_seconds=0.1)
    await database.open()
    await database.write(lambda writer: writer.exec_driver_sql("CREATE TABLE things (id INTEGER)"))
    other = sqlite3.connect(tmp_path / "db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RequestError) as caught:
        await database.write(add(1))
    assert (caught.value.status, caught.value.code) == (503, "storage_error")
    other.execute("ROLLBACK")
    other.close()
    assert await database.write(add(2)) == 2
    assert things(database) == [2]
    await database.close()


async def test_closing_commits_what_is_queued(tmp_path: Path) -> None:
    """Writes submitted before the close are answered, later ones refused."""
    database = Database(tmp_path / "db")
    await database.open()
    await database.write(lambda writer: writer.exec_driver_sql("CREATE TABLE things (id INTEGER)"))
    writes = [asyncio.ensure_future(database.write(add(number))) for number in range(100)]
    await asyncio.sleep(0)
    await database.close()
    assert await asyncio.gather(*writes) == list(range(100))
    with pytest.raises(RequestError) as caught:
        await database.write(add(1))
    assert caught.value.status == 503
    await database.open()
    assert len(things(database)) == 100
    await database.close()


async def test_a_full_disk_is_a_507_and_nothing_is_half_done(tmp_path: Path) -> None:
    """The push that does not fit is refused whole; the rest stays readable, smaller ones fit."""
    limits = {"database_bytes": 4 * MIB}
    async with running_platform(tmp_path, limits=limits) as platform, Wire(platform.url) as wire:
        evaluation = await wire.evaluation()
        kept = [{"i": index, "text": "x" * 1000} for index in range(500)]
        assert (await wire.push(evaluation, kept, "p1")).status == 200
        big = [{"i": index, "text": "y" * 1000} for index in range(500, 6000)]
        for headers in ({}, {"Idempotency-Key": "k"}):
            reply = await wire.post(
                f"/evaluations/{evaluation}/samples",
                {"samples": big},
                headers={"X-Prime-Push": "p1", "X-Prime-Range": "500-6000", **headers},
            )
            assert (reply.status, reply.code) == (507, "storage_full")
        assert await wire.samples(evaluation) == kept
        assert (await wire.get(f"/evaluations/{evaluation}")).json["total_samples"] == 500
        small = await wire.push(evaluation, big[:10], "p1", "500-510")
        assert small.json["stored"] == 10


async def test_a_full_disk_fails_every_write_of_the_group_and_no_other(tmp_path: Path) -> None:
    """Concurrent pushes into a filling disk: each is stored or refused whole, as answered."""
    limits = {"database_bytes": 6 * MIB}
    async with running_platform(tmp_path, limits=limits) as platform, Wire(platform.url) as wire:
        evaluation = await wire.evaluation()
        batches = {
            start: [{"i": start + index, "text": "z" * 2000} for index in range(100)]
            for start in range(0, 5000, 100)
        }
        replies = await asyncio.gather(
            *(
                wire.push(evaluation, batch, "p1", f"{start}-{start + 100}")
                for start, batch in batches.items()
            )
        )
        stored = [
            start for start, reply in zip(batches, replies, strict=True) if reply.status == 200
        ]
        assert {reply.status for reply in replies} == {200, 507}
        expected = [sample for start in stored for sample in batches[start]]
        assert await wire.samples(evaluation) == expected


async def test_a_delete_on_a_full_disk_counts_and_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluation is gone for its users at once; its space is freed when there is room to."""
    async with running_platform(tmp_path) as platform, Wire(platform.url) as wire:
        evaluation = await wire.evaluation()
        await wire.push(evaluation, [{"a": 1}], "p1")
        real = platform.parts.database.write

        async def full_after_the_first(write: Any, *, rows: int = 1) -> Any:
            monkeypatch.setattr(platform.parts.database, "write", full)
            return await real(write, rows=rows)

        async def full(write: Any, *, rows: int = 1) -> Any:
            raise RequestError(507, "storage_full", "full")

        monkeypatch.setattr(platform.parts.database, "write", full_after_the_first)
        assert (await wire.delete(f"/evaluations/{evaluation}")).status == 204
        assert (await wire.get(f"/evaluations/{evaluation}/samples")).status == 404
        assert platform.parts.database.point(chunks) == 1
    async with running_platform(tmp_path) as platform:
        assert platform.parts.database.point(chunks) == 0


def chunks(reader: Connection) -> int:
    count: int = reader.exec_driver_sql("SELECT count(*) FROM sample_chunks").scalar_one()
    return count
