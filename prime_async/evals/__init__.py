"""Evaluations: the client, its models and receipts."""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from prime_async.evals.client import (
        AsyncEvalsClient as AsyncEvalsClient,
    )
    from prime_async.evals.models import (
        Evaluation as Evaluation,
        EvaluationList as EvaluationList,
        HostedEvaluation as HostedEvaluation,
        ResolvedEnvironment as ResolvedEnvironment,
        SamplePage as SamplePage,
        TERMINAL_STATUSES as TERMINAL_STATUSES,
    )
    from prime_async.evals.receipts import (
        PushReceipt as PushReceipt,
        RefusedSample as RefusedSample,
        ResumeToken as ResumeToken,
    )
    from prime_async.evals.verifiers import (
        ResultRun as ResultRun,
        find_runs as find_runs,
        load_run as load_run,
    )

__all__ = [
    "AsyncEvalsClient",
    "Evaluation",
    "EvaluationList",
    "HostedEvaluation",
    "PushReceipt",
    "RefusedSample",
    "ResolvedEnvironment",
    "ResultRun",
    "ResumeToken",
    "SamplePage",
    "TERMINAL_STATUSES",
    "find_runs",
    "load_run",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AsyncEvalsClient": "prime_async.evals.client",
        "Evaluation": "prime_async.evals.models",
        "EvaluationList": "prime_async.evals.models",
        "HostedEvaluation": "prime_async.evals.models",
        "PushReceipt": "prime_async.evals.receipts",
        "RefusedSample": "prime_async.evals.receipts",
        "ResolvedEnvironment": "prime_async.evals.models",
        "ResultRun": "prime_async.evals.verifiers",
        "ResumeToken": "prime_async.evals.receipts",
        "SamplePage": "prime_async.evals.models",
        "TERMINAL_STATUSES": "prime_async.evals.models",
        "find_runs": "prime_async.evals.verifiers",
        "load_run": "prime_async.evals.verifiers",
    },
)
