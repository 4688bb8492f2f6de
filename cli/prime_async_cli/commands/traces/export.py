"""``traces export``: many traces into one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.traces.options import chosen, filter_options
from prime_async_cli.options import argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.value_types import FilePath

__all__ = ["export"]

_FILTERS = (
    "run_id",
    "upload_id",
    "upload_context",
    "environment_id",
    "task_id",
    "model_id",
    "outcome",
    "has_error",
    "reward_min",
    "reward_max",
    "created_after",
    "created_before",
)


@command(
    "export",
    examples="""
    prime-async traces export run.jsonl --run-id TRACED
    prime-async traces export good.parquet --reward-min 0.9
    prime-async traces export again.jsonl --format raw -c source=nightly
    """,
)
@argument("dest", type=FilePath(), metavar="FILE", help="The file; its folders are made.")
@asyncclick.option(
    "--format",
    "kind",
    type=asyncclick.Choice(["jsonl", "parquet", "raw"]),
    help="Rows of summary and document, or only the lines as they were uploaded (raw). Default: "
    "parquet for a FILE.parquet, else jsonl.",
)
@filter_options(*_FILTERS)
@output_option
@pass_session
async def export(
    session: Session, /, dest: Path, kind: Literal["jsonl", "parquet", "raw"] | None, **given: Any
) -> None:
    """Write traces into one file.

    The file appears when it is whole; one of that name is replaced then. A raw export can be
    uploaded again. JSON: {"dest", "format", "bytes_written"}.
    """
    filters = chosen(given, _FILTERS, "an export")
    kind = kind or ("parquet" if dest.suffix == ".parquet" else "jsonl")
    async with session.traces() as client:
        if kind == "raw":
            written = await client.download(dest, **filters)
        else:
            written = await client.export(dest, format=kind, **filters)
    if not written:
        session.output.warn(f"no trace is like that: {dest} is empty")
    if session.output.json:
        session.output.document({"dest": str(dest), "format": kind, "bytes_written": written})
    else:
        session.output.fields([("file", str(dest)), ("format", kind), ("bytes", f"{written:,}")])
