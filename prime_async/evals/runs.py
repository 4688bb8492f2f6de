"""Pushing a result run: checked, created, pushed, finalized; harmless when it is repeated."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from prime_async.errors import InvalidEvaluationError, PartialPushError, PrimeError, UsageError
from prime_async.evals.models import Evaluation
from prime_async.evals.pushing import push_opened, stored_ranges
from prime_async.evals.receipts import PushReceipt, ResumeToken
from prime_async.evals.run_files import RunFile, open_run_file, push_id_of
from prime_async.evals.run_options import EvaluationKnown, RunOptions, token_for
from prime_async.evals.sync import goes_to, interrupted_pushes
from prime_async.evals.verifiers import ResultRun
from prime_async.transport import DEFAULT_TIMEOUT, deadline, time_left

if TYPE_CHECKING:
    from prime_async.evals.client import AsyncEvalsClient

__all__ = ["PushedRun", "push_run"]

_LOGGER = logging.getLogger("prime_async.evals")
_COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class PushedRun:
    """What became of a result run.

    Attributes:
        evaluation_id: where its samples are.
        run: what was pushed.
        receipt: what was stored and what was refused.
        created: the evaluation was made for it.
        finalized: the evaluation is closed.
        viewer_url: the page that shows it, or None.
    """

    evaluation_id: str
    run: ResultRun
    receipt: PushReceipt
    created: bool
    finalized: bool
    viewer_url: str | None = None


@dataclass(frozen=True, slots=True)
class _Target:
    """The evaluation that is pushed to, as it was before."""

    evaluation_id: str
    before: Evaluation | None = None
    created: bool = False


async def push_run(client: AsyncEvalsClient, path: Path | str, options: RunOptions) -> PushedRun:
    """Push a run; see ``AsyncEvalsClient.push_run``."""
    until = anyio.current_time() + options.push.timeout
    with deadline(options.push.timeout, f"preparing the push of {path}"):
        options = await _resumed(client, path, options)
        file = await anyio.to_thread.run_sync(_opened, path, options, abandon_on_cancel=True)
        target = await _target(client, file.run, options)
    with _named(target, path):
        if options.on_evaluation is not None:
            await _call(options.on_evaluation, target.evaluation_id, file.total)
        receipt = await _push(client, file, target, options, time_left(until))
    with _named(target, path, stored=receipt):
        left = min(time_left(until), DEFAULT_TIMEOUT)
        evaluation = await _finalized(client, file.run, target, receipt, options, left)
    return PushedRun(
        evaluation_id=target.evaluation_id,
        run=file.run,
        receipt=receipt,
        created=target.created,
        finalized=evaluation is not None,
        viewer_url=evaluation.viewer_url if evaluation else None,
    )


async def _resumed(client: AsyncEvalsClient, path: Path | str, options: RunOptions) -> RunOptions:
    """Replace ``resume=True`` by the token of the latest push of this file that was interrupted.

    Raises:
        UsageError: none is known, or the file is not what it was.
    """
    if options.resume is not True:
        return options
    found = await anyio.to_thread.run_sync(lambda: interrupted_pushes(file=path))
    here = [push for push in found if goes_to(push, client.api_client)]
    if not here:
        raise UsageError(
            f"no interrupted push of {path} to {client.api_client.base_url} is known here",
            field="resume",
            hint="give the token that the push printed",
        )
    push = here[-1]
    if push.changed:
        raise UsageError(
            f"{path} changed since its push to evaluation {push.evaluation_id} was interrupted",
            field="resume",
            hint=f"push it there again, as new: evaluation_id={push.evaluation_id!r}",
        )
    token = token_for(options.evaluation_id, push.resume_token)
    return replace(
        options,
        resume=push.resume_token,
        push=replace(options.push, token=token, continues=True),
    )


def _opened(path: Path | str, options: RunOptions) -> RunFile:
    """Read what is to be pushed, as the options describe it.

    Raises:
        InvalidEvaluationError: it is not said what it belongs to.
    """
    # What is resumed was checked, and what is too large decided, when it began.
    skip = options.skip_oversized or bool(options.resume)
    file = open_run_file(path, options.push.encoder(), skip_oversized=skip)
    run = replace(
        file.run,
        env=options.env or file.run.env,
        model=options.model_name or file.run.model,
        metrics=file.run.metrics if options.metrics is None else dict(options.metrics),
    )
    if not (run.env or options.run_id or options.evaluation_id or options.resume):
        raise InvalidEvaluationError(
            f"{path} does not say which environment it belongs to",
            field="env",
            hint="give env=NAME, run_id=ID or evaluation_id=ID",
        )
    if options.resume:
        _check_same_file(options.push.token, file)
    return replace(file, run=run)


def _check_same_file(token: ResumeToken, file: RunFile) -> None:
    """Refuse a token of another file: what it calls stored would be passed over here."""
    own = push_id_of(token.evaluation_id, file.first)
    if token.push_id.startswith(own[:5]) and token.push_id != own:
        raise UsageError(
            f"the resume token is not of {file.run.samples}, or that has another beginning now",
            field="resume",
        )


async def _target(client: AsyncEvalsClient, run: ResultRun, options: RunOptions) -> _Target:
    """Return the evaluation to push to: the one that is named, brought up to date, or a new one."""
    described: dict[str, Any] = {
        "model_name": run.model,
        "framework": run.framework or None,
        "task_type": run.task_type,
        "metadata": run.metadata or None,
    }
    if options.resume:
        return _Target(options.push.token.evaluation_id)
    if options.evaluation_id:
        before = await client.get_evaluation(options.evaluation_id)
        wanted = {"name": options.name, **described}
        changes = {
            name: value
            for name, value in wanted.items()
            if value is not None and before.get(name) != value
        }
        if changes:
            await client.update_evaluation(options.evaluation_id, **changes)
        return _Target(options.evaluation_id, before)
    created = await client.create_evaluation(
        options.name or run.name,
        environments=[run.env] if run.env and not options.run_id else None,
        run_id=options.run_id,
        is_public=options.is_public,
        **described,
    )
    assert created.evaluation_id is not None
    return _Target(created.evaluation_id, created=True)


async def _push(
    client: AsyncEvalsClient,
    file: RunFile,
    target: _Target,
    options: RunOptions,
    seconds: float,
) -> PushReceipt:
    push = replace(options.push, timeout=seconds)
    if not options.resume:
        push_id = options.push_id or push_id_of(target.evaluation_id, file.first)
        # Everything is sent, even what is known to be there: what differs from it is refused by
        # name, where passing over it would lose it in silence.
        token = ResumeToken(target.evaluation_id, push_id)
        push = replace(push, token=token, continues=False)
        await _warn_of_company(client, file.run, target, token)
    return await push_opened(client.api_client, file.opened, push)


async def _warn_of_company(
    client: AsyncEvalsClient, run: ResultRun, target: _Target, token: ResumeToken
) -> None:
    """Say when the samples come on top of others: a repeated push by mistake would double them."""
    there = target.before.total_samples if target.before is not None else None
    if not there:
        return
    stored = await stored_ranges(await client.api_client.connect(), token)
    if stored is None:
        _LOGGER.warning(
            "evaluation %s holds %d samples already; this platform cannot tell whether those of %s "
            "are among them, and stores them in addition",
            target.evaluation_id, there, run.samples,
        )  # fmt: skip
    elif not stored:
        _LOGGER.warning(
            "evaluation %s holds %d samples of other files; those of %s are added",
            target.evaluation_id, there, run.samples,
        )  # fmt: skip


async def _finalized(
    client: AsyncEvalsClient,
    run: ResultRun,
    target: _Target,
    receipt: PushReceipt,
    options: RunOptions,
    seconds: float,
) -> Evaluation | None:
    """Close the evaluation when all is there, or missing by choice; None when it stays open."""
    left_out = options.skip_oversized and all(each.size is not None for each in receipt.refused)
    if not options.finalize or not (receipt.complete or left_out):
        return None
    if target.before is not None and target.before.status == _COMPLETED:
        now = await client.get_evaluation(target.evaluation_id, timeout=seconds)
        same = now.total_samples is not None and now.total_samples == target.before.total_samples
        if same and run.metrics in ({}, now.metrics):
            return now  # a push that is repeated changes nothing
    return await client.finalize_evaluation(
        target.evaluation_id, run.metrics or None, timeout=seconds
    )


@contextmanager
def _named(target: _Target, path: Path | str, stored: PushReceipt | None = None) -> Iterator[None]:
    """Let an error say which evaluation is left behind, and how to go on."""
    try:
        yield
    except Exception as error:
        left = f"evaluation {target.evaluation_id} is not complete"
        if stored is not None:
            hint = f"{left}: close it with finalize_evaluation({target.evaluation_id!r})"
        elif isinstance(error, PartialPushError) and error.receipt.resume_token:
            hint = f"{left}: go on with push_run({str(path)!r}, resume=receipt.resume_token)"
        else:
            again = f"evaluation_id={target.evaluation_id!r}"
            hint = f"{left}: go on with push_run({str(path)!r}, {again})"
        if isinstance(error, PrimeError):
            kept = None if isinstance(error, PartialPushError) else error.hint
            error.hint = f"{kept}; {hint}" if kept else hint
        else:
            error.add_note(hint)
        raise


async def _call(callback: EvaluationKnown, evaluation_id: str, samples: int) -> None:
    result = callback(evaluation_id, samples)
    if inspect.isawaitable(result):
        await result
