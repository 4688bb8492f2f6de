"""``eval push``: results from this disk to the platform, with a truthful account at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, argument, output_option
from prime_async_cli.session import Session, pass_session
from prime_async_cli.text import counted
from prime_async_cli.value_types import FilePath, JsonObject

if TYPE_CHECKING:
    from prime_async.evals import AsyncEvalsClient
    from prime_async_cli.commands.evals.delivery import Delivery

__all__ = ["push"]

_KNOWN = "?"
"""``--resume`` without a token: go on with what this machine knows about the file."""


@command(
    "push",
    examples="""
    prime-async eval push                         # here, or outputs/evals/*/* and outputs/*
    prime-async eval push outputs/evals/gsm8k--gpt-4o-mini/1a2b3c4d
    prime-async eval push samples.jsonl --env gsm8k --model gpt-4o-mini
    prime-async eval push RUN --trim trajectory   # where a sample is too large
    prime-async eval push RUN --resume            # the push was interrupted
    prime-async eval push RUN --eval-id ID        # the run was resumed
    """,
)
@argument(
    "path",
    required=False,
    type=FilePath(),
    metavar="[DIR|FILE]",
    help="A result folder of verifiers (either generation), a file in it, or a .jsonl file.",
)
@asyncclick.option(
    "-e",
    "--env",
    "--env-id",
    "env",
    metavar="NAME",
    help="The environment: owner/name, or a name of yours. Default: what the folder says.",
)
@asyncclick.option(
    "--model",
    "model_name",
    metavar="NAME",
    help="The model. Default: what the folder says.",
)
@asyncclick.option("--name", metavar="TEXT", help="The name. Default: ENV-MODEL.")
@asyncclick.option("-r", "--run-id", type=Identifier(), help="The training run it belongs to.")
@asyncclick.option(
    "--eval-id",
    "--eval",
    "evaluation_id",
    type=Identifier(),
    help="Push into this evaluation; of a file that was pushed there before, only what is new.",
)
@asyncclick.option(
    "--public", "is_public", is_flag=True, help="Let everybody see it; private otherwise."
)
@asyncclick.option(
    "--metrics",
    type=JsonObject(),
    metavar="JSON|@FILE",
    help="Final scores. Default: the avg_ values of the folder.",
)
@asyncclick.option(
    "--skip", "skip_oversized", is_flag=True, help="Leave out samples that are too large."
)
@asyncclick.option(
    "--trim",
    multiple=True,
    metavar="FIELD",
    help="Leave this field out of samples that are too large; may be given again, in order.",
)
@asyncclick.option(
    "--resume",
    is_flag=False,
    flag_value=_KNOWN,
    metavar="[TOKEN]",
    help="Go on with an interrupted push of this file; only what is missing is sent.",
)
@asyncclick.option(
    "--push-id",
    metavar="TEXT",
    help="Name the push: only where two files that begin alike go into one evaluation.",
)
@asyncclick.option(
    "--no-finalize", is_flag=True, help="Leave the evaluation open for more samples."
)
@output_option
@pass_session
async def push(session: Session, /, path: Path | None, resume: str | None, **options: Any) -> int:
    """Push results: create an evaluation, send the samples, finalize it.

    The file is checked before anything is created: broken lines and samples too large to send stop
    the push. The exit code is 0 only when every sample is stored.

    JSON: {"path", "status", "evaluation_id", "finalized", "viewer_url", "receipt"}, or
    {"results": [...]} for several folders.
    """
    path, resume = _untangled(path, resume)
    folders = _folders(path)
    arguments = _arguments(options, path, resume, folders)
    async with session.evals() as client:
        if path is not None or len(folders) == 1:
            return await _one(session, client, folders[0], arguments)
        return await _several(session, client, folders, arguments)


def _untangled(path: Path | None, resume: str | None) -> tuple[Path | None, str | None]:
    """In ``--resume DIR`` the folder was meant as the folder, not as a token."""
    is_token = resume in (None, _KNOWN) or str(resume).startswith("pr1.")
    if path is None and not is_token:
        return Path(str(resume)), _KNOWN
    return path, resume


def _folders(path: Path | None) -> list[Path]:
    from prime_async.evals import find_runs

    if path is not None:
        return [path]
    found = find_runs(Path())
    if not found:
        raise CommandError(
            "there are no results here: no metadata.json with results.jsonl, no traces.jsonl, "
            "and nothing in outputs",
            hint="name the folder: `prime-async eval push DIR`",
            code=USAGE,
        )
    return found


def _arguments(
    options: dict[str, Any], path: Path | None, resume: str | None, folders: list[Path]
) -> dict[str, Any]:
    """What the options say, as arguments of the core."""
    if options["evaluation_id"] and options["is_public"]:
        raise CommandError("--public counts for a new evaluation only", code=USAGE)
    for name, given in (
        ("--eval-id", options["evaluation_id"]),
        ("--run-id", options["run_id"]),
        ("--name", options["name"]),
        ("--push-id", options["push_id"]),
        ("--resume", resume),
    ):
        if given and path is None and len(folders) > 1:
            raise CommandError(f"{name} needs a folder: there are {len(folders)} here", code=USAGE)
    finalize = not options.pop("no_finalize")
    known = True if resume == _KNOWN else resume
    return {**options, "resume": known, "finalize": finalize}


async def _one(
    session: Session, client: AsyncEvalsClient, folder: Path, arguments: dict[str, Any]
) -> int:
    from prime_async_cli.commands.evals.delivery import deliver

    delivery = await deliver(session, client, folder, arguments)
    if session.output.json and delivery.evaluation_id is not None:
        session.output.document(_as_json(delivery))
    elif delivery.receipt is not None:
        _show(session, delivery)
    if delivery.error is not None:
        raise delivery.error
    return 0


async def _several(
    session: Session, client: AsyncEvalsClient, folders: list[Path], arguments: dict[str, Any]
) -> int:
    """Push one folder after the other; a failure of one does not stop the next."""
    from prime_async_cli.commands.evals.delivery import deliver
    from prime_async_cli.failures import explain

    deliveries = []
    for folder in folders:
        delivery = await deliver(session, client, folder, arguments)
        deliveries.append(delivery)
        if delivery.receipt is not None and not session.output.json:
            _show(session, delivery)
        if delivery.error is not None and not session.output.json:
            session.output.warn(f"{folder}: {explain(delivery.error).message}")
            if session.next_step:
                session.output.note(f"  {session.next_step}")
        session.next_step, session.facts = None, {}
    if session.output.json:
        session.output.document({"results": [_as_json(each) for each in deliveries]})
    failed = [str(each.path) for each in deliveries if not each.complete]
    if not failed:
        return 0
    raise CommandError(
        f"{len(failed)} of {len(folders)} pushes are not complete: {', '.join(failed)}",
        failed=failed,
    )


def _show(session: Session, delivery: Delivery) -> None:
    """Say what was stored; what was not is said by the error that follows."""
    receipt = delivery.receipt
    assert receipt is not None
    session.output.fields(
        [
            ("evaluation", delivery.evaluation_id),
            ("from", str(delivery.path)),
            ("samples", str(receipt)),
            ("sent", f"{receipt.bytes_sent:,} bytes in {counted(receipt.batches, 'request')}"),
            ("took", f"{receipt.seconds:.2f} s"),
            ("finalized", delivery.finalized),
            *([("view", delivery.viewer_url)] if delivery.viewer_url else []),
        ]
    )
    for place, count in receipt.nonfinite.items():
        session.output.warn(
            f"{place} was NaN or infinite in {counted(count, 'sample')} and became null"
        )
    if receipt.samples_total == 0:
        session.output.warn(f"{delivery.path} holds no samples")
    for index, fields in list(receipt.trimmed.items())[:10]:
        session.output.note(f"sample {index} went without {', '.join(fields)}")


def _as_json(delivery: Delivery) -> dict[str, Any]:
    from prime_async_cli.failures import explain

    answer: dict[str, Any] = {
        "path": str(delivery.path),
        "status": "complete" if delivery.complete else "failed",
        "evaluation_id": delivery.evaluation_id,
        "finalized": delivery.finalized,
        "viewer_url": delivery.viewer_url,
        "receipt": delivery.receipt.to_dict() if delivery.receipt else None,
    }
    if delivery.error is not None:
        answer["error"] = explain(delivery.error).as_json()["error"]
    return answer
