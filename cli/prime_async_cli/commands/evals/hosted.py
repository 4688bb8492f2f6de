"""``eval stop`` and ``eval logs``: evaluations that the platform runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.commands.evals.follow import last_lines, new_text
from prime_async_cli.failures import CommandError
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.text import harmless, without_colour
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
    type=asyncclick.IntRange(0, 1_000_000),
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
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two looks, with --follow.",
)
@output_option
@pass_session
async def logs(
    session: Session, evaluation_id: str, tail: int, follow: bool, poll_interval: float
) -> int:
    """Show the log of a hosted evaluation.

    JSON: {"evaluation_id", "status", "logs"}; not with --follow.
    """
    if follow and session.output.json:
        raise asyncclick.UsageError("--follow writes lines as they come, not one JSON document")
    async with session.evals() as client:
        status = (await client.get_evaluation(evaluation_id)).status
        text = await client.get_hosted_logs(evaluation_id)
        shown = last_lines(text, tail)
        if session.output.json:
            document = {"evaluation_id": evaluation_id, "status": status, "logs": shown}
            session.output.document(document)
            return 0
        _show(shown)
        if not follow:
            return 0
        return await _follow(session, client, evaluation_id, text, poll_interval)


async def _follow(
    session: Session, client: AsyncEvalsClient, evaluation_id: str, text: str, pause: float
) -> int:
    from anyio import sleep

    from prime_async.evals import TERMINAL_STATUSES

    while True:
        # Status first: what is written between the two calls is then still fetched.
        status = (await client.get_evaluation(evaluation_id)).status or "UNKNOWN"
        now = await client.get_hosted_logs(evaluation_id)
        _show(new_text(text, now))
        text = now
        if status in TERMINAL_STATUSES:
            break
        if streams.reader_has_gone():
            return 0
        await sleep(pause)
    session.output.note(f"evaluation {evaluation_id} ended: {status}")
    if status != "COMPLETED":
        raise CommandError(f"evaluation {evaluation_id} ended as {status}", evaluation=status)
    return 0


def _show(text: str) -> None:
    if text:
        clean = harmless(without_colour(text), lines=True)
        streams.write(clean if clean.endswith("\n") else clean + "\n")
