"""``prime-async demo``: an evaluation and a training run, on this machine, told as they happen."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import asynccontextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.demo_training import train_in_a_sandbox
from prime_async_cli.failures import CommandError
from prime_async_cli.options import output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.text import counted, paint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from prime_async.evals import AsyncEvalsClient, ResultRun
    from prime_async.local import LocalAddress

__all__ = ["demo"]


@command("demo")
@asyncclick.option("--keep", is_flag=True, help="Leave the platform running afterwards.")
@output_option
@pass_session
async def demo(session: Session, keep: bool) -> None:
    """A real evaluation and a training run in a sandbox, on this machine.

    Starts the embedded platform, pushes a result folder as the verifiers library wrote it, and
    reads it back; then trains a model in a sandbox, as a background job, and brings it here. Needs
    no account and no network. What it started it stops; the evaluation stays.

    JSON: {"evaluation_id", "samples", "equal", "training": {"sandbox_id", "job_id", "isolated",
    "model"}, "seconds", "base_url", "platform_left_running"}.
    """
    story = _Story(session)
    async with _platform(story, keep) as address:
        with as_file(files("prime_async_cli") / "demo_data") as folder:
            facts = await _life_of_an_evaluation(session, story, folder)
        facts["training"] = await train_in_a_sandbox(story.step)
        running = keep or not address.started
    story.end(facts, address.base_url, running)


class _Story:
    """Tells each step with what it took; silent in JSON mode."""

    def __init__(self, session: Session) -> None:
        self._output = session.output
        self._begin = self._last = time.perf_counter()
        self._number = 0

    def step(self, title: str, *facts: str) -> None:
        """Tell a step that is done, and how long it took."""
        now = time.perf_counter()
        self._number += 1
        if not self._output.json:
            heading = paint(f"{self._number}. {title}", "bold", self._output.coloured)
            self._output.text(f"{heading}  ({now - self._last:.2f} s)")
            for fact in facts:
                self._output.text(f"   {fact}")
        self._last = now

    def end(self, facts: dict[str, Any], base_url: str, running: bool) -> None:
        """Say what there is now and what to do with it."""
        seconds = time.perf_counter() - self._begin
        if self._output.json:
            document = {**facts, "seconds": round(seconds, 3), "base_url": base_url}
            self._output.document({**document, "platform_left_running": running})
            return
        self._output.text(f"\nAll of it in {seconds:.1f} s. The evaluation stays; look at it:")
        self._output.text("   prime-async --context local eval list")
        self._output.text(f"   prime-async --context local eval samples {facts['evaluation_id']}")
        self._output.text("Push your own results, from any folder verifiers wrote:")
        self._output.text("   prime-async --context local eval push DIR")
        self._output.text("Run your own commands in a sandbox that is deleted afterwards:")
        self._output.text(
            "   prime-async --context local sandbox run python:3.11 -- python -c 'print(1)'"
        )
        self._output.text("Let other programs use the platform, the official clients too:")
        self._output.text('   eval "$(prime-async local env)"')
        self._say_where_the_command_is()
        if running:
            self._output.text("\nThe platform goes on running; `prime-async local stop` ends it.")
        else:
            self._output.text("\nNothing is left running: the platform comes back when it is used.")

    def _say_where_the_command_is(self) -> None:
        """`make demo` runs what no path of the user's shell leads to."""
        program = Path(sys.argv[0])
        if shutil.which("prime-async") is None and program.name == "prime-async":
            activate = program.with_name("activate")
            self._output.text(f"Here prime-async is {program}; on the path after: . {activate}")


@asynccontextmanager
async def _platform(story: _Story, keep: bool) -> AsyncIterator[LocalAddress]:
    """The embedded platform; stopped at the end, in every case, when it was started here."""
    import anyio

    from prime_async import local

    address = await local.ensure_running()
    how = (
        "Started the embedded platform" if address.started else "The embedded platform was running"
    )
    story.step(how, f"{address.base_url}, its data in {local.LocalPaths.find().root}")
    try:
        yield address
    finally:
        if address.started and not keep:
            with anyio.CancelScope(shield=True):
                await local.stop()


async def _life_of_an_evaluation(session: Session, story: _Story, folder: Path) -> dict[str, Any]:
    from prime_async.evals import AsyncEvalsClient, load_run

    run = load_run(folder)
    async with AsyncEvalsClient(context="local") as client:
        evaluation_id = await _create(client, story, run)
        receipt = await client.push_samples(evaluation_id, run.samples)
        story.step(
            "Pushed the samples",
            f"{receipt}: {receipt.bytes_sent:,} bytes in {counted(receipt.batches, 'request')}",
        )
        await client.finalize_evaluation(evaluation_id, run.metrics)
        scores = ", ".join(f"{name} {value:g}" for name, value in run.metrics.items())
        story.step("Finalized with the scores of the run", scores)
        count = await _compare(client, story, evaluation_id, run)
    return {"evaluation_id": evaluation_id, "samples": count, "equal": True}


async def _create(client: AsyncEvalsClient, story: _Story, run: ResultRun) -> str:
    evaluation = await client.create_evaluation(
        run.name,
        environments=[run.env or "demo"],
        model_name=run.model,
        framework=run.framework,
        metadata=run.metadata,
    )
    assert evaluation.evaluation_id is not None
    story.step(
        "Created an evaluation", f"{evaluation.evaluation_id}: {run.model} on {run.env}, a real run"
    )
    return evaluation.evaluation_id


async def _compare(
    client: AsyncEvalsClient, story: _Story, evaluation_id: str, run: ResultRun
) -> int:
    """Read everything back and compare it with the file, value by value.

    Raises:
        CommandError: something is not as it was pushed.
    """
    import json

    rows = [json.loads(line) for line in run.samples.read_text("utf-8").splitlines() if line]
    pushed = [{"example_id": row["id"], **row} for row in rows]
    stored = [sample async for sample in client.iter_samples(evaluation_id)]
    evaluation = await client.get_evaluation(evaluation_id)
    if stored != pushed or evaluation.metrics != run.metrics:
        raise CommandError(
            f"evaluation {evaluation_id} does not read back as it was pushed",
            hint="this is a fault of prime-async; please report it",
        )
    answer = stored[0]["completion"][-1]["content"].splitlines()[-1]
    story.step(
        f"Read it back: {evaluation.status}, {len(stored)} samples, each equal to what was pushed",
        f"the first answer: {answer}",
    )
    return len(stored)
