"""Starting, ending and following jobs that run: the scripts in real shells."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from prime_async import (
    APIError,
    AsyncSandboxClient,
    BackgroundJob,
    BackgroundJobStatus,
    BackgroundJobTimeoutError,
    CreateSandboxRequest,
    partial_output,
)
from prime_async.sandboxes.jobs import launching
from prime_async.sandboxes.jobs.handles import new_job_id
from tests.faces import Face, both_faces
from tests.sandbox_double import SandboxDouble
from tests.sandboxes.jobs.polling import until

TMP = Path("/tmp")


@pytest.fixture(autouse=True)
def fresh_id(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Makes ids of jobs; their files, which lie in the /tmp of this machine, are removed."""
    names: list[str] = []

    def named() -> str:
        names.append(new_job_id())
        return names[-1]

    monkeypatch.setattr(launching, "new_job_id", named)
    yield named
    for path in [path for name in names for path in TMP.glob(f"job_{name}.*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(params=[True, False], ids=["machine", "container"])
async def where(
    request: pytest.FixtureRequest, double: SandboxDouble, client: AsyncSandboxClient
) -> str:
    """A sandbox of each kind."""
    double.containers = not request.param
    return (await client.create(CreateSandboxRequest(name="x", docker_image="python:3.11"))).id


async def run(
    client: AsyncSandboxClient, box: str, command: str, **how: object
) -> BackgroundJobStatus:
    """Run a job to its end."""
    job = await client.start_background_job(box, command, **how)  # type: ignore[arg-type]
    (found,) = await client.wait_background_jobs([job], timeout=20)
    assert found.error is None, found.error
    return found


@pytest.mark.parametrize(
    ("command", "stdout", "code"),
    [
        ("echo hi # a comment", "hi\n", 0),
        ("cat <<END\n$((6*7))\nEND", "42\n", 0),
        ("exit 9", "", 9),
        ("kill -9 $$", "", 137),
        ("kill -TERM 0; sleep 9", "", 143),
        ("kill -9 0", "", 137),
        ("[[ a =~ ^a$ ]] && a=(1 2); echo ${#a[@]} $BASH", "2 /bin/bash\n", 0),
        ("read line; echo $?", "1\n", 0),
        ("x='it'\"'\"'s; touch /tmp/pwned'; echo \"$x\"", "it's; touch /tmp/pwned\n", 0),
        ("false; (exit 3)", "", 3),
        ("if", "", 2),
    ],
)
async def test_whatever_bash_takes_is_run(
    client: AsyncSandboxClient, box: str, command: str, stdout: str, code: int
) -> None:
    """And how it ended is recorded, whatever it does to its shell or its group."""
    found = await run(client, box, command)
    assert (found.stdout, found.exit_code) == (stdout, code)


async def test_commands_and_variables_of_any_size(client: AsyncSandboxClient, where: str) -> None:
    """Beyond what an argument of Linux can hold."""
    long = "x=" + "é" * 400_000 + "\necho ${#x} ${#A} ${#B}"
    env = {"A": "a" * 120_000, "B": "b" * 120_000}
    found = await run(client, where, long, env=env)
    assert found.stdout == "400000 120000 120000\n"


async def test_surroundings_are_those_asked_for(client: AsyncSandboxClient, where: str) -> None:
    """Folder and variables, quotes and all; a broken PATH breaks the command only."""
    value = "it's; touch /tmp/pwned; $(id) `id` \"\n\\"
    found = await run(
        client,
        where,
        'pwd; printf %s "$V"; env | /bin/grep -c ^PRIME_JOB',
        working_dir="/usr/share",
        env={"V": value, "PATH": "/nowhere:/usr/bin"},
    )
    assert found.stdout == f"/usr/share\n{value}0\n"
    found = await run(client, where, "echo never", working_dir="/no where")
    assert (found.stdout, found.exit_code) == ("", 1)
    assert "/no where" in (found.stderr or "")
    assert not (TMP / "pwned").exists()


async def test_variables_stand_in_no_title_and_no_file(
    client: AsyncSandboxClient, double: SandboxDouble, box: str, fresh_id: Callable[[], str]
) -> None:
    """Not in the command that starts the job, not in what it leaves behind."""
    job = await client.start_background_job(
        box, "sleep 60", env={"TOKEN": "sk-CANARY-123"}, job_id=(name := fresh_id())
    )
    told = [running.request.command for running in double.running.values()]
    assert not any("CANARY" in " ".join(command.args) for command in told)
    for path in TMP.glob(f"job_{name}*/**/*"):
        assert not path.is_file() or "CANARY" not in path.read_text()
    pid = (TMP / f"job_{name}.launch/pid").read_text().strip()
    assert b"CANARY" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert (TMP / f"job_{name}.launch/command").stat().st_mode & 0o077 == 0
    await client.cancel_background_job(job)


async def test_a_job_starts_once(
    client: AsyncSandboxClient,
    double: SandboxDouble,
    box: str,
    tmp_path: Path,
    fresh_id: Callable[[], str],
) -> None:
    """However often the answer is lost, and however often it is asked for by the same id."""
    double.lost_starts = 2
    mark, first, second = tmp_path / "mark", fresh_id(), fresh_id()
    job = await client.start_background_job(box, f"echo x >> {mark}; echo ran", job_id=first)
    again = await client.start_background_job(box, f"echo y >> {mark}", job_id=first)
    assert job == again
    (found,) = await client.wait_background_jobs([job])
    assert found.stdout == "ran\n"
    assert mark.read_text() == "x\n"
    many = [client.start_background_job(box, f"echo z >> {mark}", job_id=second) for _ in range(5)]
    jobs = await asyncio.gather(*many)
    await client.wait_background_jobs(jobs[:1])
    assert mark.read_text() == "x\nz\n"


async def test_what_does_not_start_is_told(
    client: AsyncSandboxClient, box: str, fresh_id: Callable[[], str]
) -> None:
    """With the reason; nothing is left that would look like a job."""
    name = fresh_id()
    blocked = TMP / f"job_{name}.launch"
    blocked.write_text("in the way")
    try:
        with pytest.raises(APIError, match=f"job {name} did not start") as caught:
            await client.start_background_job(box, "echo hi", job_id=name)
    finally:
        blocked.unlink()
    assert caught.value.code == "job_not_started"


async def test_cancelling_ends_the_whole_group(client: AsyncSandboxClient, where: str) -> None:
    """TERM first, then KILL; its own exit code stays; one that has ended is left as it is."""
    start = client.start_background_job
    gentle = await start(where, "trap 'echo bye; exit 4' TERM; sleep 60 & wait")
    plain = await start(where, "sleep 60 & sleep 60")
    deaf = await start(where, "trap '' TERM; sleep 60 & echo $!; wait")
    await until(lambda: Path(deaf.stdout_log_file).read_text())
    ended = [await client.cancel_background_job(job, grace=1) for job in (gentle, plain, deaf)]
    assert [one.exit_code for one in ended] == [4, 143, 137]
    assert (await client.cancel_background_job(gentle)).exit_code == 4
    pid = Path(deaf.stdout_log_file).read_text().strip()
    await until(lambda: not Path(f"/proc/{pid}/cmdline").exists() or _is_zombie(pid))
    (found,) = await client.wait_background_jobs([gentle])
    assert found.stdout == "bye\n"
    with pytest.raises(APIError, match="no such job"):
        await client.cancel_background_job(BackgroundJob.of(where, "0123ffff"))


async def test_a_job_of_the_official_client_is_ended_too(
    client: AsyncSandboxClient, box: str, fresh_id: Callable[[], str]
) -> None:
    """It has no group of its own, and its shell goes with it: the exit code is written for it."""
    name = fresh_id()
    stem = f"/tmp/job_{name}"
    inner = f"echo $$ > {stem}.launch/pid; (sleep 60); echo $? > {stem}.exit"
    launch = f"mkdir {stem}.launch; nohup sh -c '{inner}' </dev/null >/dev/null 2>&1 &"
    await client.execute_command(box, launch)
    job = BackgroundJob.of(box, name)
    await until(lambda: Path(f"{stem}.launch/pid").exists())
    assert not (await client.get_background_job_status(box, job)).completed
    assert (await client.cancel_background_job(job)).exit_code == 143
    assert Path(f"{stem}.exit").read_text() == "143\n"


def _is_zombie(pid: str) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes() == b""


async def test_a_job_that_is_killed_from_outside_is_lost(
    client: AsyncSandboxClient, box: str
) -> None:
    """Nobody is left to tell how it ended: that is said, and nobody waits for ever."""
    job = await client.start_background_job(box, "kill -9 $PPID; sleep 60")
    (found,) = await client.wait_background_jobs([job], timeout=20)
    assert (found.completed, found.error_code) == (False, "RUNTIME_ERROR")
    assert "lost" in (found.error or "")
    group = Path(f"/tmp/job_{job.job_id}.launch/group").read_text().strip()
    await client.execute_command(box, f"kill -9 -- -{group}")


@both_faces
async def test_running_a_job_and_being_late(face: Face, double: SandboxDouble) -> None:
    """Its output, or the error with what it had written; then it is gone, unless it is to go on."""
    async with face.AsyncSandboxClient("key", base_url=double.url) as client:
        box = await client.create(CreateSandboxRequest(name="x", docker_image="python:3.11"))
        found = await client.run_background_job(box.id, "echo hi; exit 3")
        assert (found.stdout, found.exit_code) == ("hi\n", 3)
        with pytest.raises(BackgroundJobTimeoutError) as caught:
            await client.run_background_job(
                box.id, "echo step 1; echo no >&2; sleep 60", timeout=0.7
            )
        error = caught.value
        assert (error.stdout, error.stderr, error.killed) == ("step 1\n", "no\n", True)
        after = await client.get_background_job_status(box.id, error.job)
        assert (after.completed, after.exit_code) == (True, 143)
        with pytest.raises(BackgroundJobTimeoutError, match="it goes on") as caught:
            await client.run_background_job(box.id, "sleep 60", timeout=0.5, detach=True)
        after = await client.get_background_job_status(box.id, caught.value.job)
        assert not after.completed
        await client.cancel_background_job(caught.value.job)


async def test_what_was_seen_too_early_is_not_kept(
    client: AsyncSandboxClient, box: str, tmp_path: Path
) -> None:
    """A job that goes on writes more than its time-out told."""
    gate = tmp_path / "gate"
    command = f"echo a; while ! test -e {gate}; do sleep 0.05; done; echo b"
    with pytest.raises(BackgroundJobTimeoutError) as caught:
        await client.run_background_job(box, command, timeout=0.5, detach=True)
    assert caught.value.stdout == "a\n"
    gate.touch()
    (found,) = await client.wait_background_jobs([caught.value.job])
    assert found.stdout == "a\nb\n"


async def test_cancelling_the_caller_ends_the_job(client: AsyncSandboxClient, box: str) -> None:
    """With what it had written on the exception."""
    task = asyncio.create_task(client.run_background_job(box, "echo step 1; sleep 60"))
    await until(lambda: client.stats().batches)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    output = partial_output(caught.value)
    assert output is not None
    assert output.stdout == "step 1\n"
    job = caught.value.background_job  # type: ignore[attr-defined]
    assert (await client.get_background_job_status(box, job)).exit_code == 143


@pytest.fixture
async def follower(double: SandboxDouble) -> AsyncIterator[AsyncSandboxClient]:
    """Another client of the double."""
    async with AsyncSandboxClient(api_key="k", base_url=double.url) as made:
        yield made


async def test_following_gives_exact_bytes_and_can_be_gone_on_with(
    client: AsyncSandboxClient, follower: AsyncSandboxClient, where: str
) -> None:
    """Both streams, invalid bytes and split characters included, from any offset, by any client."""
    command = (
        r"printf '\xe2\x98'; sleep 0.3; printf '\x95 a\n'; printf '\xff\x00err' >&2; sleep 0.3;"
        r" head -c 3000000 /dev/zero | tr '\0' z; printf '\xe2'"
    )
    job = await client.start_background_job(where, command)
    got = {"stdout": b"", "stderr": b""}
    async for chunk in client.follow_background_job(job):
        assert chunk.offset == len(got[chunk.stream])
        got[chunk.stream] += chunk.data
        if got["stdout"]:
            break
    offsets = {f"{name}_offset": len(data) for name, data in got.items()}
    async for chunk in follower.follow_background_job(job, **offsets):
        assert chunk.offset == len(got[chunk.stream])
        assert chunk.end == chunk.offset + len(chunk.data)
        got[chunk.stream] += chunk.data
    assert got["stdout"] == "☕ a\n".encode() + b"z" * 3_000_000 + b"\xe2"
    assert got["stderr"] == b"\xff\x00err"


async def test_following_what_is_gone_is_told(client: AsyncSandboxClient, box: str) -> None:
    """Deleted, or shorter than what was read already."""
    job = await client.start_background_job(box, "echo hello")
    await client.wait_background_jobs([job])
    with pytest.raises(APIError, match="it was cut"):
        async for _ in client.follow_background_job(job, stdout_offset=100):
            pass
    Path(job.stderr_log_file).unlink()
    with pytest.raises(APIError, match="there is no file"):
        async for _ in client.follow_background_job(job):
            pass


async def test_jobs_are_listed(client: AsyncSandboxClient, where: str) -> None:
    """Each is a handle; running, ended and lost ones are told apart."""
    start = client.start_background_job
    ended = await start(where, "echo 'a b'  # " + "x" * 500)
    await client.wait_background_jobs([ended])
    running = await start(where, "sleep 60")
    listed = {info.job_id: info for info in await client.list_background_jobs(where)}
    assert (listed[ended.job_id].state, listed[ended.job_id].exit_code) == ("completed", 0)
    assert listed[running.job_id].state == "running"
    assert listed[running.job_id].command == "sleep 60"
    assert (listed[ended.job_id].command or "").startswith("echo 'a b'  # xxx")
    assert len(listed[ended.job_id].command or "") == 200
    assert (await client.get_background_job(where, listed[ended.job_id])).stdout == "a b\n"
    await client.cancel_background_job(listed[running.job_id])
