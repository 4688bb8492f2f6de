"""``traces delete``: one trace, or all traces of a run."""

from __future__ import annotations

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, argument, output_option, yes_option
from prime_async_cli.prompts import confirm
from prime_async_cli.session import Session, pass_session

__all__ = ["delete"]


@command(
    "delete",
    examples="""
    prime-async traces delete DOOMED --yes
    prime-async traces delete --run-id DOOMED-RUN --yes
    """,
)
@argument(
    "trace_id", type=Identifier(), required=False, metavar="[ID]", help="The id of the trace."
)
@asyncclick.option(
    "-r", "--run-id", type=Identifier(), help="Delete all traces of this run instead."
)
@yes_option
@output_option
@pass_session
async def delete(session: Session, trace_id: str | None, run_id: str | None, yes: bool) -> None:
    """Delete a trace, or all traces of a run.

    All copies of a trace are deleted. What is gone already is an error, as what never was.

    JSON: {"trace_id", "run_id", "status": "accepted"}.
    """
    if (trace_id is None) == (run_id is None):
        raise CommandError("name one target: the id of a trace, or --run-id ID", code=USAGE)
    what = f"trace {trace_id}" if trace_id else f"all traces of run {run_id}"
    if not confirm(f"Delete {what}", yes=yes):
        session.output.note("nothing was deleted")
        return
    async with session.traces() as client:
        if trace_id is not None:
            await client.delete(trace_id)
        elif run_id is not None:
            await client.delete_run(run_id)
    if session.output.json:
        session.output.document({"trace_id": trace_id, "run_id": run_id, "status": "accepted"})
    else:
        session.output.text(f"accepted: {what} will not be found any more")
