"""``eval stop`` and ``eval logs``: evaluations that the platform runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.failures import CommandError
from prime_async_cli.options import Identifier, Number, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.text import as_drawn, harmless, without_colour
from prime_async_cli.value_types import Seconds

if TYPE_CHECKING:
    from prime_async.evals import AsyncEvalsClient

__all__ = ["logs", "stop"]


@command("stop")
@argument("evaluation_id", type=Identifier(), metavar="ID", help="The id of the evaluation.")
@output_option
@pass_session
async def stop(session: Session, evaluation_id: str) -> None:
    """Stop a hosted evaluation; harmless when it has ended."""
    async with session.evals() as client:
        answer = await client.cancel_hosted_evaluation(evaluation_id)
    if session.output.json:
        session.output.document({"evaluation_id": evaluation_id, **answer})
    else:
        said = str(answer.get("message") or f"stopping {evaluation_id}")
        session.output.text(harmless(said))


@command(
    "logs",
    examples="prime-async eval logs ID --follow",
)
@argument("evaluation_id", type=Identifier(), metavar="ID", help="The id of the evaluation.")
@asyncclick.option(
    "-n",
    "--tail",
    type=Number(0, 1_000_000),
    default=1000,
    show_default=True,
    help="How many of the last lines to begin with.",
)
@asyncclick.option(
    "-f", "--follow", is_flag=True, help="Go on until it ends; exit 1 unless it completed."
)
@asyncclick.option(
    "--poll-interval",
    type=Seconds(0.1, 3600),
    metavar="SECONDS",
    help="Pause between two looks with --follow, 0.1 to 3600. Default: 2 to 15, as lines come.",
)
@output_option
@pass_session
async def logs(
    session: Session, evaluation_id: str, tail: int, follow: bool, poll_interval: float | None
) -> int:
    """Show the log of a hosted evaluation.

    JSON: {"evaluation_id", "status", "logs"}; not with --follow.
    """
    if follow and session.output.json:
        raise asyncclick.UsageError("--follow writes lines as they come, not one JSON document")
    async with session.evals() as client:
        if follow:
            return await _follow(session, client, evaluation_id, tail, poll_interval)
        status = (await client.get_evaluation(evaluation_id)).status
        text = await client.get_hosted_logs(evaluation_id)
    lines = text.removesuffix("\n").split("\n") if text else []
    shown = lines[max(0, len(lines) - tail) :]
    if session.output.json:
        ended = "".join(f"{line}\n" for line in shown)
        document = {"evaluation_id": evaluation_id, "status": status, "logs": ended}
        session.output.document(document)
    else:
        for line in shown:
            _show(line)
    return 0


async def _follow(
    session: Session, client: AsyncEvalsClient, evaluation_id: str, tail: int, pause: float | None
) -> int:
    async for line in client.iter_hosted_logs(
        evaluation_id, poll_interval=pause, tail=tail, timeout=math.inf
    ):
        _show(line)
        if streams.reader_has_gone():
            return 0
    status = (await client.get_evaluation(evaluation_id)).status
    session.output.note(f"evaluation {evaluation_id} ended: {status}")
    if status != "COMPLETED":
        raise CommandError(f"evaluation {evaluation_id} ended as {status}", evaluation=status)
    return 0


def _show(line: str) -> None:
    streams.write(harmless(without_colour(as_drawn(line)), lines=True) + "\n")
