"""`AsyncEvalsClient`: create, push, finalize and read evaluations."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from prime_async import ids
from prime_async.errors import (
    InvalidEvaluationError,
    NotFoundError,
    UsageError,
)
from prime_async.evals.environments import (
    EnvironmentSpec,
    check_environments,
    environments_or_dataset,
    resolve_environments,
)
from prime_async.evals.models import (
    Evaluation,
    EvaluationList,
    HostedEvaluation,
    SamplePage,
)
from prime_async.evals.pages import decode_samples
from prime_async.evals.push import Progress, not_found
from prime_async.evals.pushing import PushOptions, push_samples
from prime_async.evals.receipts import PushReceipt
from prime_async.evals.sources import Samples
from prime_async.evals.sync import SyncResult, sync_pushes
from prime_async.evals.waiting import wait_until_terminal
from prime_async.requests import check_range, given, read_record
from prime_async.resources import AsyncResourceClient
from prime_async.transport import (
    DEFAULT_TIMEOUT,
    Replay,
    Response,
    check_timeout,
    deadline,
    path_segment,
)

__all__ = ["AsyncEvalsClient"]

MAX_PAGE = 1000


class AsyncEvalsClient(AsyncResourceClient):
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
        with deadline(check_timeout(timeout, DEFAULT_TIMEOUT), f"creating evaluation {name!r}"):
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
                timeout=math.inf,  # the deadline around it counts
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

    async def sync_pushes(self, progress_callback: Progress | None = None) -> list[SyncResult]:
        """Deliver what earlier pushes to this platform left on disk: spooled samples and
        interrupted files.

        Safe to call from several processes at a time; a push that was going elsewhere is reported,
        never redirected.

        Args:
            progress_callback: called with the number of samples settled since the last call.

        Returns:
            One result per push that was found; its ``problem`` is None when everything is
            delivered.
        """
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
        path = f"{_path(evaluation_id)}/finalize"
        response = await self._send(
            evaluation_id,
            "POST",
            path,
            json={"metrics": metrics} if metrics else {},
            timeout=timeout,
            idempotency_key=ids.new_id("finalize"),
        )
        return read_record(response, Evaluation)

    async def get_evaluation(
        self, evaluation_id: str, *, timeout: float | None = None
    ) -> Evaluation:
        """Return one evaluation.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
        """
        response = await self._send(evaluation_id, "GET", _path(evaluation_id), timeout=timeout)
        return read_record(response, Evaluation)

    async def list_evaluations(
        self,
        env_name: str | None = None,
        suite_id: str | None = None,
        skip: int = 0,
        limit: int = 50,
        *,
        team_id: str | None = None,
        timeout: float | None = None,
    ) -> EvaluationList:
        """Return one page of evaluations, newest first.

        Args:
            env_name, suite_id: only those of this environment or suite.
            skip: how many to pass over.
            limit: how many to return, 1 to 1,000.
            team_id: only those of this team; default is the client's team.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: `skip` or `limit` is out of range.
        """
        check_range("skip", skip, 0, None)
        check_range("limit", limit, 1, MAX_PAGE)
        transport = await self._api.connect()
        response = await transport.request(
            "GET",
            "/evaluations/",
            params={
                "skip": skip,
                "limit": limit,
                "environment_name": env_name or None,
                "suite_id": suite_id or None,
                "team_id": team_id or self._api.team_id or None,
            },
            timeout=timeout,
        )
        return read_record(response, EvaluationList)

    async def iter_evaluations(
        self,
        env_name: str | None = None,
        suite_id: str | None = None,
        *,
        team_id: str | None = None,
        page_size: int = 100,
    ) -> AsyncIterator[Evaluation]:
        """Yield every evaluation, newest first, reading page by page.

        Raises:
            UsageError: `page_size` is out of range.
        """
        skip = 0
        while True:
            page = await self.list_evaluations(env_name, suite_id, skip, page_size, team_id=team_id)
            for evaluation in page.evaluations:
                yield evaluation
            skip += len(page.evaluations)
            if not page.evaluations or skip >= page.total:
                return

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
        if body.get("tags") == []:
            # The official clients send [] for "no change" too, so our platform takes null for
            # "none"; the official service is not known to. Reading first tells which one this is.
            await self.get_evaluation(evaluation_id, timeout=timeout)
            body["tags"] = None if (await self._api.connect()).features else []
        response = await self._send(
            evaluation_id, "PUT", _path(evaluation_id), json=body, timeout=timeout
        )
        return read_record(response, Evaluation)

    async def delete_evaluation(self, evaluation_id: str, *, timeout: float | None = None) -> None:
        """Delete an evaluation and its samples.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
        """
        await self._send(evaluation_id, "DELETE", _path(evaluation_id), timeout=timeout)

    async def get_samples(
        self, evaluation_id: str, page: int = 1, limit: int = 100, *, timeout: float | None = None
    ) -> SamplePage:
        """Return one page of samples, in input order, each equal to what was pushed.

        Args:
            evaluation_id: of what.
            page: from 1.
            limit: samples per page, 1 to 1,000.
            timeout: seconds in all; default 60.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
            UsageError: `page` or `limit` is out of range.
        """
        check_range("page", page, 1, None)
        check_range("limit", limit, 1, MAX_PAGE)
        response = await self._send(
            evaluation_id,
            "GET",
            f"{_path(evaluation_id)}/samples",
            params={"page": page, "limit": limit},
            timeout=timeout,
        )
        return await decode_samples(response)

    async def iter_samples(
        self, evaluation_id: str, *, page_size: int = 100
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield every sample of an evaluation, in input order, reading page by page.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
            UsageError: `page_size` is out of range.
        """
        number = 1
        while True:
            page = await self.get_samples(evaluation_id, number, page_size)
            for sample in page.samples:
                yield sample
            if not page.samples or not (page.has_more or number * page_size < page.total):
                return
            number += 1

    async def wait_for_evaluation(
        self,
        evaluation_id: str,
        *,
        poll_interval: float | None = None,
        timeout: float | None = None,
    ) -> Evaluation:
        """Wait until an evaluation has a final status (COMPLETED, FAILED, CANCELLED or TIMEOUT) and
        return it.

        Args:
            evaluation_id: which.
            poll_interval: seconds between looks; by default they grow from 0.25 to 10.
            timeout: seconds to wait; default 86,400 (a day), ``math.inf`` without end.

        Raises:
            APITimeoutError: it is not final in time.
            EvaluationNotFoundError: there is no such evaluation.
        """
        return await wait_until_terminal(
            lambda: self.get_evaluation(evaluation_id), evaluation_id, poll_interval, timeout
        )

    async def create_hosted_evaluation(
        self,
        environment_ids: Sequence[str],
        inference_model: str,
        eval_config: Mapping[str, Any],
        *,
        name: str | None = None,
        team_id: str | None = None,
        timeout: float | None = None,
    ) -> HostedEvaluation:
        """Ask the platform to run an evaluation itself, one per environment.

        Args:
            environment_ids: environments to evaluate in.
            inference_model: model id, such as ``openai/gpt-4.1-mini``.
            eval_config: how: ``num_examples``, ``rollouts_per_example``, ``env_args`` and so on.
            name: what it is called.
            team_id: team to run it for; default is the client's team.
            timeout: seconds in all; default 60.

        Raises:
            InvalidEvaluationError: no environment or model; before any request.
        """
        if isinstance(environment_ids, str) or not environment_ids:
            raise InvalidEvaluationError(
                "environment_ids is not a list of ids", field="environment_ids"
            )
        if not inference_model:
            raise InvalidEvaluationError("inference_model is empty", field="inference_model")
        transport = await self._api.connect()
        body = {
            "environment_ids": list(environment_ids),
            "inference_model": inference_model,
            "eval_config": eval_config,
            "name": name,
            "team_id": team_id or self._api.team_id or None,
        }
        response = await transport.request(
            "POST",
            "/hosted-evaluations",
            json=given(body),
            timeout=timeout,
            idempotency_key=ids.new_id("hosted"),
        )
        return read_record(response, HostedEvaluation)

    async def cancel_hosted_evaluation(
        self, evaluation_id: str, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Stop a hosted evaluation; harmless when it has ended. Returns the answer, with
        ``message`` if there is one.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
        """
        path = f"/hosted-evaluations/{path_segment(evaluation_id, 'evaluation_id')}/cancel"
        response = await self._send(
            evaluation_id, "PATCH", path, timeout=timeout, replay=Replay.SAFE
        )
        return response.json()

    async def get_hosted_logs(self, evaluation_id: str, *, timeout: float | None = None) -> str:
        """Return the whole log of a hosted evaluation so far, "" while there is none.

        Raises:
            EvaluationNotFoundError: there is no such evaluation.
        """
        path = f"/hosted-evaluations/{path_segment(evaluation_id, 'evaluation_id')}/logs"
        response = await self._send(evaluation_id, "GET", path, timeout=timeout)
        return str(response.json().get("logs") or "")

    async def _send(self, evaluation_id: str, method: str, path: str, **options: Any) -> Response:
        """Send a request about one evaluation; a 404 says which."""
        transport = await self._api.connect()
        try:
            return await transport.request(method, path, **options)
        except NotFoundError as error:
            raise not_found(evaluation_id, error) from error


def _checked_tags(tags: Sequence[str] | None) -> list[str] | None:
    if isinstance(tags, str):
        raise UsageError("tags is a single text", field="tags", hint=f"tags=[{tags!r}]")
    return None if tags is None else list(tags)


def _path(evaluation_id: str) -> str:
    return f"/evaluations/{path_segment(evaluation_id, 'evaluation_id')}"
