"""Hosted evaluations: this platform does not run them yet and says so."""

from __future__ import annotations

from prime_async.evals.models import HostedEvaluation
from prime_async.evals.requests import HostedEvaluationRequest
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.routes.evaluations import evaluation_not_found
from prime_async.server.store import evaluations

__all__ = ["ENDPOINTS"]


async def create(call: Call) -> Reply:
    """Refuse: running evaluations here comes with a later version."""
    raise RequestError(
        501,
        "not_implemented",
        "this local platform cannot run hosted evaluations; running them locally comes with a "
        "later version. Run the evaluation yourself and push its samples",
    )


async def cancel(call: Call) -> Reply:
    """Refuse: nothing here is hosted."""
    raise _not_hosted(call)


async def logs(call: Call) -> Reply:
    """Refuse: nothing here is hosted."""
    raise _not_hosted(call)


def _not_hosted(call: Call) -> RequestError:
    evaluation_id = call.path["evaluation_id"]
    stored = call.platform.database.point(
        lambda reader: evaluations.find(reader, evaluation_id, call.caller)
    )
    if stored is None:
        return evaluation_not_found(evaluation_id)
    return RequestError(
        409,
        "not_hosted",
        f"evaluation {evaluation_id} is not hosted: its samples are pushed by its user, so there "
        "is nothing to cancel and there are no logs",
    )


_REFUSALS = {404: ErrorAnswer, 409: ErrorAnswer}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "POST",
        "/hosted-evaluations",
        create,
        "Start a hosted evaluation (not on this platform yet)",
        {200: HostedEvaluation, 501: ErrorAnswer},
        body=HostedEvaluationRequest,
    ),
    Endpoint(
        "PATCH",
        "/hosted-evaluations/{evaluation_id}/cancel",
        cancel,
        "Cancel a hosted evaluation",
        _REFUSALS,
    ),
    Endpoint(
        "GET",
        "/hosted-evaluations/{evaluation_id}/logs",
        logs,
        "Read the logs of a hosted evaluation",
        _REFUSALS,
    ),
)
