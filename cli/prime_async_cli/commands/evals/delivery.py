"""One result folder on its way to the platform: checked, created, pushed, finalized."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anyio import to_thread

from prime_async.errors import InvalidEvaluationError, PartialPushError
from prime_async.evals import (
    AsyncEvalsClient,
    FileCheck,
    PushReceipt,
    ResultRun,
    check_path,
    load_run,
)
from prime_async_cli.failures import CommandError
from prime_async_cli.progress import progress
from prime_async_cli.session import Session

__all__ = ["Delivery", "Wishes", "deliver", "open_run"]

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the options of ``eval push`` say.

    Attributes:
        env, model, name, run_id, public, metrics: in place of what the folder says.
        eval_id: push to this evaluation in place of a new one.
        skip: leave samples out that are too large.
        trim: fields to leave out of samples that are too large.
        resume: token of an earlier push.
        finalize: close the evaluation when everything is stored.
    """

    env: str | None = None
    model: str | None = None
    name: str | None = None
    run_id: str | None = None
    public: bool = False
    metrics: Mapping[str, Any] | None = None
    eval_id: str | None = None
    skip: bool = False
    trim: tuple[str, ...] = ()
    resume: str | None = None
    finalize: bool = True


@dataclass(slots=True)
class Delivery:
    """What became of one folder.

    Attributes:
        path: the folder or file.
        evaluation_id: where the samples are, once that is known.
        receipt: what the push did, once it ran.
        finalized: the evaluation is closed.
        viewer_url: the page that shows it, or None.
        error: why it did not work out, or None.
    """

    path: Path
    evaluation_id: str | None = None
    receipt: PushReceipt | None = None
    finalized: bool = False
    viewer_url: str | None = None
    error: BaseException | None = field(default=None, repr=False)

    @property
    def complete(self) -> bool:
        """Everything is on the platform."""
        return self.error is None and self.receipt is not None and self.receipt.complete


def open_run(path: Path, wishes: Wishes) -> ResultRun:
    """Read what is to be pushed: a result folder, or a bare JSONL file that the options describe.

    Raises:
        InvalidEvaluationError: it is neither, or it is not said what it belongs to.
    """
    try:
        run = load_run(path)
    except InvalidEvaluationError:
        if not (path.is_file() and path.suffix == ".jsonl"):
            raise
        # Nothing is known about it: least of all that verifiers wrote it.
        run = ResultRun(path.parent, path, None, None, {}, {"file": path.name}, framework="")
    run = replace(
        run,
        env=wishes.env or run.env,
        model=wishes.model or run.model,
        metrics=dict(wishes.metrics) if wishes.metrics is not None else run.metrics,
    )
    if not (run.env or wishes.run_id or wishes.eval_id or wishes.resume):
        raise InvalidEvaluationError(
            f"{path} does not say which environment it belongs to",
            field="env",
            hint="add --env NAME, --run-id ID or --eval-id ID",
        )
    return run


async def deliver(
    session: Session, client: AsyncEvalsClient, run: ResultRun, wishes: Wishes, delivery: Delivery
) -> None:
    """Push one run and fill in what became of it; nothing is created before the file was checked.

    Raises:
        PartialPushError: samples are undelivered or their fate is unknown.
        CommandError: samples are too large and nothing was said about that, or some were refused.
    """
    check = await _check(run, wishes)
    delivery.evaluation_id = await _evaluation(client, run, wishes)
    _prepare_for_the_worst(session, delivery)
    try:
        await _push(session, client, run, wishes, delivery, check.samples)
    except PartialPushError as error:
        delivery.receipt = error.receipt
        _prepare_for_the_worst(session, delivery)
        raise
    assert delivery.receipt is not None
    if wishes.finalize and (delivery.receipt.complete or wishes.skip or wishes.trim):
        await _finalize(client, run, delivery)
    session.next_step = None
    if not delivery.receipt.complete:
        raise _refused(session, delivery)


async def _check(run: ResultRun, wishes: Wishes) -> FileCheck:
    """Read the file once, before anything is created.

    Raises:
        InvalidSampleError: lines are broken.
        CommandError: samples are larger than a request may be.
    """
    check = await to_thread.run_sync(check_path, run.samples)
    if check.oversized and not (wishes.skip or wishes.trim):
        lines = [f"line {each.line}: {each.size:,} bytes" for each in check.oversized[:_SHOWN]]
        rest = len(check.oversized) - len(lines)
        raise CommandError(
            f"{run.samples}: {len(check.oversized)} of {check.samples} samples are too large for a "
            "request\n" + "\n".join(lines) + (f"\nand {rest} more" if rest else ""),
            hint="nothing was created; --trim FIELD shortens them, --skip leaves them out",
            oversized=[{"line": o.line, "index": o.index, "size": o.size} for o in check.oversized],
        )
    return check


async def _evaluation(client: AsyncEvalsClient, run: ResultRun, wishes: Wishes) -> str:
    """Return the evaluation to push to: the one that was named, or a new one."""
    if wishes.resume:
        from prime_async.evals import ResumeToken

        return ResumeToken.parse(wishes.resume).evaluation_id
    described: dict[str, Any] = {
        "model_name": run.model,
        "framework": run.framework or None,
        "task_type": run.task_type,
        "metadata": run.metadata or None,
    }
    if wishes.eval_id:
        await client.get_evaluation(wishes.eval_id)
        await client.update_evaluation(wishes.eval_id, name=wishes.name, **described)
        return wishes.eval_id
    created = await client.create_evaluation(
        wishes.name or run.name,
        environments=[run.env] if run.env and not wishes.run_id else None,
        run_id=wishes.run_id,
        is_public=wishes.public,
        **described,
    )
    assert created.evaluation_id is not None
    return created.evaluation_id


async def _push(
    session: Session,
    client: AsyncEvalsClient,
    run: ResultRun,
    wishes: Wishes,
    delivery: Delivery,
    total: int,
) -> None:
    assert delivery.evaluation_id is not None
    with progress(session.output, f"pushing {run.samples.name}", total) as advance:
        delivery.receipt = await client.push_samples(
            delivery.evaluation_id,
            run.samples,
            progress_callback=advance,
            trim=wishes.trim,
            resume=wishes.resume,
        )


async def _finalize(client: AsyncEvalsClient, run: ResultRun, delivery: Delivery) -> None:
    assert delivery.evaluation_id is not None
    evaluation = await client.finalize_evaluation(delivery.evaluation_id, run.metrics or None)
    delivery.finalized = True
    delivery.viewer_url = evaluation.viewer_url


def _prepare_for_the_worst(session: Session, delivery: Delivery) -> None:
    """From here on a failure leaves an evaluation behind: say which, and how to go on."""
    token = delivery.receipt.resume_token if delivery.receipt else None
    resume = f"--resume {token}" if token else "--resume"
    session.facts = {"evaluation_id": delivery.evaluation_id, "path": str(delivery.path)}
    session.next_step = (
        f"evaluation {delivery.evaluation_id} is not complete; go on with "
        f"`prime-async eval push {shlex.quote(str(delivery.path))} {resume}`"
    )


def _refused(session: Session, delivery: Delivery) -> CommandError:
    receipt = delivery.receipt
    assert receipt is not None
    lines = [f"sample {each.index}: {each.reason}" for each in receipt.refused[:_SHOWN]]
    if receipt.samples_skipped > len(lines):
        lines.append(f"and {receipt.samples_skipped - len(lines)} more")
    state = "finalized" if delivery.finalized else "not finalized"
    return CommandError(
        f"{receipt.samples_skipped} of {receipt.samples_total} samples were refused; "
        f"{receipt.samples_pushed} are stored\n" + "\n".join(lines),
        hint=f"evaluation {delivery.evaluation_id} is {state}",
        evaluation_id=delivery.evaluation_id,
    )
