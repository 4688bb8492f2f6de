"""`AsyncHostedEvals`: the part of the evaluations client about evaluations the platform runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from prime_async import ids
from prime_async.errors import InvalidEvaluationError
from prime_async.evals.hosted_logs import follow_log
from prime_async.evals.models import HostedEvaluation
from prime_async.evals.reading import AsyncEvalsReader
from prime_async.requests import given, read_record
from prime_async.transport import Replay, deadline, path_segment

__all__ = ["AsyncHostedEvals"]


class AsyncHostedEvals(AsyncEvalsReader):
    """Starts, stops and follows hosted evaluations; see :class:`AsyncEvalsClient`."""

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

    async def iter_hosted_logs(
        self,
        evaluation_id: str,
        *,
        poll_interval: float | None = None,
        tail: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[str]:
        """Yield the log of a hosted evaluation line by line as it grows, each line once, until the
        evaluation is final.

        The platform hands out the whole log at every look; what is new is found by the longest
        overlap, in one pass, also where the platform has dropped the beginning. Lines come without
        their line break. A platform that asks for a pause (429) gets it, for as long as it takes.

        Args:
            evaluation_id: which.
            poll_interval: seconds between looks; by default 2 while lines come, growing to 15 while
                none do, and at least four times what a look takes.
            tail: of what is there at the first look, only so many last lines; default all.
            timeout: seconds in all; default 86,400 (a day), ``math.inf`` without end.

        Raises:
            APITimeoutError: it is not final in time.
            EvaluationNotFoundError: there is no such evaluation.
            UsageError: an argument is out of range.
        """

        async def look(seconds: float) -> tuple[str, str]:
            with deadline(seconds, f"a look at the log of evaluation {evaluation_id}"):
                # Status first: what is written between the two requests is then still fetched.
                status = (await self.get_evaluation(evaluation_id)).status or ""
                return status, await self.get_hosted_logs(evaluation_id)

        async for line in follow_log(
            look, evaluation_id, poll_interval=poll_interval, tail=tail, timeout=timeout
        ):
            yield line
