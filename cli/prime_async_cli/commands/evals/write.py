"""``eval create``, ``finalize``, ``update`` and ``delete``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import asyncclick

from prime_async_cli.command import command
from prime_async_cli.commands.evals.rows import evaluation_fields
from prime_async_cli.failures import USAGE, CommandError
from prime_async_cli.options import Identifier, Word, argument, output_option, yes_option
from prime_async_cli.prompts import confirm
from prime_async_cli.session import Session, pass_session
from prime_async_cli.value_types import JsonObject

__all__ = ["create", "delete", "finalize", "update"]

_TEXTS = (
    ("--model", "model_name", "The model that was evaluated."),
    ("--dataset", "dataset", "The dataset."),
    ("--framework", "framework", "What ran it, such as verifiers."),
    ("--task-type", "task_type", "The kind of task."),
    ("--description", "description", "What it is about."),
)


def _description_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe an evaluation, the same for ``create`` and ``update``."""
    objects = (("metrics", "Final scores, a JSON object."), ("metadata", "Anything else, as JSON."))
    for name, explanation in reversed(objects):
        function = asyncclick.option(
            f"--{name}", type=JsonObject(), metavar="JSON|@FILE", help=explanation
        )(function)
    function = asyncclick.option(
        "--tag",
        "tags",
        multiple=True,
        type=Word(),
        metavar="TAG",
        help="A tag; may be given again.",
    )(function)
    for option, name, explanation in reversed(_TEXTS):
        function = asyncclick.option(option, name, metavar="TEXT", help=explanation)(function)
    return function


@command(
    "create",
    examples="""
    prime-async eval create --name nightly --env gsm8k --model gpt-4o-mini
    prime-async eval create --name nightly --dataset gsm8k -o json
    prime-async eval create --name n --env gsm8k --metadata '{"seed": 1}'
    """,
)
@asyncclick.option("--name", required=True, metavar="TEXT", help="The name of the evaluation.")
@asyncclick.option(
    "-e",
    "--env",
    "environments",
    multiple=True,
    metavar="NAME",
    help="The environment, a name or owner/name; may be given again.",
)
@asyncclick.option("--run-id", metavar="ID", help="The training run it belongs to.")
@asyncclick.option("--suite-id", metavar="ID", help="The suite it belongs to.")
@asyncclick.option("--public", is_flag=True, help="Let everybody see it; private otherwise.")
@_description_options
@output_option
@pass_session
async def create(
    session: Session,
    /,
    environments: tuple[str, ...],
    public: bool,
    tags: tuple[str, ...],
    **rest: Any,
) -> None:
    """Create an evaluation without samples.

    It needs --env, --run-id, or --dataset, which then counts as the environment. JSON: the object
    as the platform sends it.
    """
    async with session.evals() as client:
        evaluation = await client.create_evaluation(
            environments=list(environments) or None,
            tags=list(tags) or None,
            is_public=public,
            **rest,
        )
    if session.output.json:
        session.output.document(evaluation)
    else:
        session.output.fields(evaluation_fields(evaluation))


@command(
    "finalize",
    examples="""prime-async eval finalize ID --metrics '{"accuracy": 0.92}'""",
)
@argument("evaluation_id", type=Identifier(), metavar="ID", help="The id of the evaluation.")
@asyncclick.option(
    "--metrics", type=JsonObject(), metavar="JSON|@FILE", help="Final scores, a JSON object."
)
@output_option
@pass_session
async def finalize(session: Session, evaluation_id: str, metrics: dict[str, Any] | None) -> None:
    """Close an evaluation, with metrics."""
    async with session.evals() as client:
        evaluation = await client.finalize_evaluation(evaluation_id, metrics=metrics)
    if session.output.json:
        session.output.document(evaluation)
    else:
        session.output.text(f"finalized {evaluation_id}")
        session.output.fields(evaluation_fields(evaluation))


@command(
    "update",
    examples="prime-async eval update ID --name renamed --tag best",
)
@argument("evaluation_id", type=Identifier(), metavar="ID", help="The id of the evaluation.")
@asyncclick.option("--name", metavar="TEXT", help="The new name.")
@_description_options
@asyncclick.option("--no-tags", is_flag=True, help="Remove all tags.")
@output_option
@pass_session
async def update(
    session: Session, /, evaluation_id: str, tags: tuple[str, ...], no_tags: bool, **rest: Any
) -> None:
    """Change what an evaluation says; what is not given stays as it is."""
    if tags and no_tags:
        raise CommandError("--tag and --no-tags exclude each other", code=USAGE)
    changes = {name: value for name, value in rest.items() if value is not None}
    if tags or no_tags:
        changes["tags"] = list(tags)
    if not changes:
        raise CommandError("nothing to change was given", hint="such as --name", code=USAGE)
    async with session.evals() as client:
        evaluation = await client.update_evaluation(evaluation_id, **changes)
    if session.output.json:
        session.output.document(evaluation)
    else:
        session.output.text(f"updated {evaluation_id}: {', '.join(sorted(changes))}")


@command("delete")
@argument(
    "evaluation_ids",
    type=Identifier(),
    nargs=-1,
    required=True,
    metavar="ID...",
    help="The ids of the evaluations.",
)
@yes_option
@output_option
@pass_session
async def delete(session: Session, evaluation_ids: tuple[str, ...], yes: bool) -> int:
    """Delete evaluations and their samples.

    Each is tried; the exit code is 1 when one could not be deleted. JSON: {"deleted", "failed"}.
    """
    ids = list(dict.fromkeys(evaluation_ids))
    what = f"evaluation {ids[0]}" if len(ids) == 1 else f"{len(ids)} evaluations"
    if not confirm(f"Delete {what} with all samples", yes=yes):
        session.output.note("nothing was deleted")
        return 0
    return await _delete_each(session, ids)


async def _delete_each(session: Session, ids: list[str]) -> int:
    from prime_async.errors import NotFoundError
    from prime_async_cli.failures import explain

    deleted: list[str] = []
    failed: dict[str, str] = {}
    async with session.evals() as client:
        for evaluation_id in ids:
            try:
                await client.delete_evaluation(evaluation_id)
            except NotFoundError as error:
                failed[evaluation_id] = explain(error).message
            else:
                deleted.append(evaluation_id)
                if not session.output.json:
                    session.output.text(f"deleted {evaluation_id}")
    if session.output.json:
        session.output.document({"deleted": deleted, "failed": failed})
    if not failed:
        return 0
    raise CommandError("; ".join(failed.values()), failed=sorted(failed))
