"""``eval list``, ``get`` and ``samples``."""

from __future__ import annotations

import asyncclick

from prime_async_cli import streams
from prime_async_cli.command import command
from prime_async_cli.commands.evals.rows import EVALUATIONS, SAMPLES, evaluation_fields
from prime_async_cli.options import (
    Identifier,
    argument,
    output_option,
    page_options,
    refuse_pages,
)
from prime_async_cli.session import Session, pass_session

__all__ = ["get", "list_evaluations", "samples"]


@command(
    "list",
    examples="""
    prime-async eval list --env gsm8k
    prime-async eval list --output json | jq -r '.evaluations[].evaluation_id'
    """,
)
@asyncclick.option(
    "-e", "--env", "--env-name", "env", metavar="NAME", help="Only those of this environment."
)
@asyncclick.option("--suite-id", metavar="ID", help="Only those of this suite.")
@page_options(limit=20, most=1000)
@output_option
@pass_session
async def list_evaluations(
    session: Session, env: str | None, suite_id: str | None, page: int, limit: int
) -> None:
    """List evaluations, the newest first.

    JSON: {"evaluations": [...], "total", "page", "limit"}.
    """
    async with session.evals() as client:
        found = await client.list_evaluations(
            env_name=env, suite_id=suite_id, skip=(page - 1) * limit, limit=limit
        )
    if session.output.json:
        session.output.document(
            {
                "evaluations": found.evaluations,
                "total": found.total,
                "page": page,
                "limit": limit,
            }
        )
        return
    if found.evaluations:
        session.output.table(found.evaluations, EVALUATIONS)
    _say_where(session, "evaluations", len(found.evaluations), found.total, page, limit)


def _say_where(
    session: Session, things: str, shown: int, total: int, page: int, limit: int
) -> None:
    """Tell what is on this page and how to get the next."""
    if not shown:
        beyond = f" on page {page}; there are {total}" if total else ""
        session.output.note(f"no {things}{beyond}")
    elif page * limit < total:
        first = (page - 1) * limit + 1
        session.output.note(
            f"{first}-{first + shown - 1} of {total} {things}; next: --page {page + 1}"
        )


@command("get")
@argument("evaluation_id", type=Identifier(), metavar="ID", help="The id of the evaluation.")
@output_option
@pass_session
async def get(session: Session, evaluation_id: str) -> None:
    """Show one evaluation.

    JSON: the object as the platform sends it.
    """
    async with session.evals() as client:
        evaluation = await client.get_evaluation(evaluation_id)
    if session.output.json:
        session.output.document(evaluation)
    else:
        session.output.fields(evaluation_fields(evaluation))


@command(
    "samples",
    examples="""
    prime-async eval samples ID --page 2
    prime-async eval samples ID --all > samples.jsonl
    """,
)
@argument("evaluation_id", type=Identifier(), metavar="ID", help="The id of the evaluation.")
@asyncclick.option(
    "--all",
    "everything",
    is_flag=True,
    help="Stream all samples in their order, one JSON object per line, whatever their number.",
)
@page_options(limit=100, most=1000)
@output_option
@pass_session
async def samples(
    session: Session, evaluation_id: str, everything: bool, page: int, limit: int
) -> None:
    """Show or stream the samples.

    JSON: {"samples": [...], "total", "page", "limit", "hasMore"}. With --all: JSON Lines.
    """
    if everything:
        refuse_pages(asyncclick.get_current_context(), "--all shows every sample")
        await _stream(session, evaluation_id)
        return
    async with session.evals() as client:
        found = await client.get_samples(evaluation_id, page=page, limit=limit)
    if session.output.json:
        session.output.document(found)
        return
    first = (page - 1) * limit
    rows = [{**sample, "_index": first + place} for place, sample in enumerate(found.samples)]
    if rows:
        session.output.table(rows, SAMPLES)
    _say_where(session, "samples", len(rows), found.total, page, limit)


async def _stream(session: Session, evaluation_id: str) -> None:
    async with session.evals() as client:
        async for sample in client.iter_samples(evaluation_id):
            session.output.json_line(sample)
            if streams.reader_has_gone():
                return
