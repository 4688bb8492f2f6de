"""`AsyncEvalsClient`: create, push, finalize and read evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import anyio

from prime_async import ids
from prime_async.errors import InvalidEvaluationError, UsageError
from prime_async.evals.environments import (
    EnvironmentSpec,
    check_environments,
    environments_or_dataset,
    resolve_environments,
)
from prime_async.evals.hosted import AsyncHostedEvals
from prime_async.evals.models import Evaluation
from prime_async.evals.push import Progress
from prime_async.evals.pushing import PushOptions, push_samples
from prime_async.evals.reading import evaluation_path
from prime_async.evals.receipts import PushReceipt
from prime_async.evals.run_options import EvaluationKnown, RunOptions
from prime_async.evals.runs import PushedRun, push_run
from prime_async.evals.sources import Samples
from prime_async.evals.sync import SyncResult, sync_pushes
from prime_async.localfiles import given_path
from prime_async.requests import DAY, given, read_record
from prime_async.transport import DEFAULT_TIMEOUT, check_timeout, deadline, time_left

__all__ = ["AsyncEvalsClient"]


class AsyncEvalsClient(AsyncHostedEvals):
    """Client of the evaluations API: create, push, finalize, read back.

    Args and errors of the constructor: see :class:`AsyncResourceClient`.
    """

    async def create_evaluation(
        self,
        name: str,
        environments: Sequence[EnvironmentSpec] | None = None,
        suite_id: str | None = None,
        run_id: str | None = None,
        model_name: str | None = None,
        dataset: str | None = None,
        framework: str | None = None,
        task_type: str | None = None,
        description: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        is_public: bool | None = None,
        *,
        timeout: float | None = None,
    ) -> Evaluation:
        """Create an evaluation and return it; its id is ``evaluation_id``.

        Args:
            name: what it is called.
            environments: what was evaluated: ``"owner/name"`` (must exist), a bare name (made when
                it does not), or mappings with ``id``, ``slug`` or ``name``; further keys such as
                ``version_id`` are passed on. With none, and no `run_id`, the `dataset` is taken as
                the environment.
            suite_id, run_id: groups it belongs to, passed on as they are.
            model_name, dataset, framework, task_type, description, tags: describe it.
            metadata, metrics: free-form objects.
            is_public: whether others see it; the platform's default when None.
            timeout: seconds in all; default 60.

        Raises:
            InvalidEvaluationError: no environment, dataset or run, or a malformed one; before any
                request.
            EnvironmentNotFoundError: an environment does not exist.
        """
        if not isinstance(name, str) or not name.strip():
            raise InvalidEvaluationError("name is empty or not text", field="name")
        environments = environments_or_dataset(environments, dataset, run_id)
        check_environments(environments)
        labels = _checked_tags(tags) or []
        seconds = check_timeout(timeout, DEFAULT_TIMEOUT)
        until = anyio.current_time() + seconds
        with deadline(seconds, f"creating evaluation {name!r}"):
            transport = await self._api.connect()
            resolved = await resolve_environments(transport, environments, self._api.team_id)
        body: dict[str, Any] = {
            "name": name,
            "environments": resolved or None,
            "suite_id": suite_id,
            "run_id": run_id,
            "model_name": model_name,
            "dataset": dataset,
            "framework": framework,
            "task_type": task_type,
            "description": description,
            "metadata": metadata,
            "metrics": metrics,
            "is_public": is_public,
            "team_id": self._api.team_id or None,
        }
        response = await transport.request(
            "POST",
            "/evaluations/",
            json={**given(body), "tags": labels},
            timeout=time_left(until),  # not the deadline above: this one may have been carried out
            idempotency_key=ids.new_id("create"),
        )
        evaluation = read_record(response, Evaluation)
        if not evaluation.evaluation_id:
            raise response.broken("has no evaluation_id")
        return evaluation

    async def push_samples(
        self,
        evaluation_id: str,
        samples: Samples,
        max_payload_bytes: int | None = None,
        max_concurrent: int | None = None,
        progress_callback: Progress | None = None,
        *,
        max_workers: int | None = None,
        strict: bool = False,
        trim: Sequence[str] = (),
        push_id: str | None = None,
        resume: str | None = None,
        timeout: float | None = None,
    ) -> PushReceipt:
        """Push samples, several batches at a time, each sample encoded once and sent while the rest
        is still read.

        Values are written by the table in ``docs/values.md``; NaN and infinities become null and
        are counted where they are scores. A sample that cannot be sent is refused and counted in
        the receipt, the others go on. A file is checked whole before anything is sent. A plain
        iterable is read in a thread. What an iterable that cannot be read again leaves undelivered
        is kept in ``~/.prime/spool`` for ``prime-async eval sync``.

        Args:
            evaluation_id: where to.
            samples: a list, any iterable, an async iterable, or the path of a ``.jsonl`` file, a
                verifiers result folder or a v1 ``traces.jsonl``.
            max_payload_bytes: bytes a request may have at most; default 26,214,400 (25 MiB).
                Batches aim at 1 MiB.
            max_concurrent: batches on their way at a time, default 4, 1 keeps the order on
                platforms that do not order by index; `max_workers` is the same.
            progress_callback: called with the number of samples settled since the last call.
            strict: refuse NaN and infinities, by path.
            trim: fields to leave out, in this order, of samples that are too large; named in the
                receipt.
            push_id: names the push (letters, digits, ``-`` and ``_``): where the platform knows
                sample ranges, repeating it with the same samples changes nothing, whatever happened
                in between.
            resume: token of a receipt; only what is missing is sent.
            timeout: seconds in all; default 86,400 (a day), each batch at most 300.

        Returns:
            The receipt: what was stored and what was refused.

        Raises:
            UsageError: an argument is wrong; before any request.
            InvalidSampleError: a file cannot be read or has broken lines; before any request.
            PartialPushError: samples are undelivered, spooled or unknown; ``.receipt`` says which.
            EvaluationNotFoundError, UnauthorizedError, PaymentRequiredError, ForbiddenError:
                nothing was stored.
        """
        options = PushOptions.checked(
            evaluation_id,
            max_payload_bytes=max_payload_bytes,
            max_concurrent=max_concurrent,
            max_workers=max_workers,
            progress=progress_callback,
            strict=strict,
            trim=trim,
            push_id=push_id,
            resume=resume,
            timeout=timeout,
        )
        return await push_samples(self._api, samples, options)

    async def push_run(
        self,
        path: str | PathLike[str],
        *,
        env: str | None = None,
        model_name: str | None = None,
        name: str | None = None,
        run_id: str | None = None,
        evaluation_id: str | None = None,
        is_public: bool | None = None,
        metrics: Mapping[str, Any] | None = None,
        skip_oversized: bool = False,
        trim: Sequence[str] = (),
        push_id: str | None = None,
        resume: str | bool | None = None,
        finalize: bool = True,
        max_concurrent: int | None = None,
        progress_callback: Progress | None = None,
        on_evaluation: EvaluationKnown | None = None,
        timeout: float | None = None,
    ) -> PushedRun:
        """Push a result run: create its evaluation, push its samples, finalize it.

        The file is read and checked whole first: nothing is created when lines are broken or
        samples are too large. On a platform with sample ranges it may be repeated: the samples of a
        file have a push id made of the evaluation id and the first record, so a second push of the
        same file into the same evaluation changes nothing, one of a file that has grown adds what
        is new, and a sample that differs from what is stored in its place is refused (409) and
        named, never lost or doubled. Elsewhere a repeated push stores the samples again; a warning
        says so.

        Args:
            path: a result folder of verifiers (either generation), a file in it, or a JSONL file.
            env, model_name, metrics: in place of what the folder says.
            name: of the evaluation; default ``<env>-<model>``.
            run_id: training run that the new evaluation belongs to, in place of an environment.
            evaluation_id: push into this evaluation; its model, framework, task type and metadata
                become those of the run.
            is_public: whether others see the new evaluation; the platform's default when None.
            skip_oversized: leave out samples that are too large for a request.
            trim: fields to leave out, in this order, of samples that are too large.
            push_id: names the push, where two files with the same first record go into one
                evaluation.
            resume: go on with an interrupted push: its token, or True for the latest of this file
                that is known on this machine. Only what is missing is sent.
            finalize: close the evaluation once every sample is stored or left out by
                `skip_oversized`.
            max_concurrent, progress_callback: as for :meth:`push_samples`.
            on_evaluation: called once with the id of the evaluation and the number of samples,
                before the first sample is sent.
            timeout: seconds in all; default 86,400 (a day).

        Raises:
            UsageError: an argument is wrong, or nothing is known that could be resumed.
            InvalidEvaluationError: this is no result run, or nothing says what it belongs to.
            InvalidSampleError: lines are broken (:class:`OversizedSamplesError`: too large).
            PartialPushError: samples are undelivered or unknown; ``.receipt`` says which. The hint
                of this and every later error names the evaluation and how to go on.
            EvaluationNotFoundError, EnvironmentNotFoundError: as they say.
        """
        options = RunOptions.checked(
            env=env,
            model_name=model_name,
            name=name,
            run_id=run_id,
            evaluation_id=evaluation_id,
            is_public=is_public,
            metrics=metrics,
            skip_oversized=skip_oversized,
            push_id=push_id,
            resume=resume,
            finalize=finalize,
            on_evaluation=on_evaluation,
            push={
                "max_concurrent": max_concurrent,
                "progress": progress_callback,
                "trim": trim,
                "timeout": timeout,
            },
        )
        return await push_run(self, given_path(path, "path"), options)

    async def sync_pushes(
        self, progress_callback: Progress | None = None, *, timeout: float | None = None
    ) -> list[SyncResult]:
        """Deliver what earlier pushes to this platform left on disk: spooled samples and
        interrupted files.

        Safe to call from several processes at a time; a push that was going elsewhere is reported,
        never redirected.

        Args:
            progress_callback: called with the number of samples settled since the last call.
            timeout: seconds in all; default 86,400 (a day). What is not delivered by then stays
                kept.

        Returns:
            One result per push that was found; its ``problem`` is None when everything is
            delivered.

        Raises:
            APITimeoutError: it took too long.
        """
        with deadline(check_timeout(timeout, DAY), "delivering what is kept on disk"):
            return await sync_pushes(self._api, progress=progress_callback)

    async def finalize_evaluation(
        self,
        evaluation_id: str,
        metrics: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> Evaluation:
        """Close an evaluation and store its final metrics. May be repeated; the last metrics count.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
        """
        path = f"{evaluation_path(evaluation_id)}/finalize"
        response = await self._send(
            evaluation_id,
            "POST",
            path,
            json={"metrics": metrics} if metrics else {},
            timeout=timeout,
            idempotency_key=ids.new_id("finalize"),
        )
        return read_record(response, Evaluation)

    async def update_evaluation(
        self,
        evaluation_id: str,
        name: str | None = None,
        model_name: str | None = None,
        dataset: str | None = None,
        framework: str | None = None,
        task_type: str | None = None,
        description: str | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> Evaluation:
        """Change the given fields; those left at None stay as they are, ``tags=[]`` clears the
        tags.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
            UsageError: nothing to change.
        """
        body = given(
            {
                "name": name,
                "model_name": model_name,
                "dataset": dataset,
                "framework": framework,
                "task_type": task_type,
                "description": description,
                "tags": _checked_tags(tags),
                "metadata": metadata,
                "metrics": metrics,
            }
        )
        if not body:
            raise UsageError("nothing to change: give at least one field", field="name")
        seconds = check_timeout(timeout, DEFAULT_TIMEOUT)
        with deadline(seconds, f"updating evaluation {evaluation_id}"):
            if body.get("tags") == []:
                # The official clients send [] for "no change" too, so our platform takes null for
                # "none"; the official service is not known to. Reading first tells which this is.
                await self.get_evaluation(evaluation_id, timeout=math.inf)
                body["tags"] = None if (await self._api.connect()).features else []
            response = await self._send(
                evaluation_id, "PUT", evaluation_path(evaluation_id), json=body, timeout=math.inf
            )
        return read_record(response, Evaluation)

    async def delete_evaluation(self, evaluation_id: str, *, timeout: float | None = None) -> None:
        """Delete an evaluation and its samples.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
        """
        await self._send(evaluation_id, "DELETE", evaluation_path(evaluation_id), timeout=timeout)


def _checked_tags(tags: Sequence[str] | None) -> list[str] | None:
    if isinstance(tags, str):
        raise UsageError("tags is a single text", field="tags", hint=f"tags=[{tags!r}]")
    return None if tags is None else list(tags)
