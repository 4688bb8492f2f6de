"""Evaluations: the client, its models and receipts."""

from prime_async._lazy import lazy_exports

TYPE_CHECKING = False  # see _lazy.py
if TYPE_CHECKING:
    from prime_async.evals.batches import (
        MAX_PAYLOAD_BYTES as MAX_PAYLOAD_BYTES,
    )
    from prime_async.evals.client import (
        AsyncEvalsClient as AsyncEvalsClient,
    )
    from prime_async.evals.files import (
        FileCheck as FileCheck,
    )
    from prime_async.evals.files import (
        OversizedLine as OversizedLine,
    )
    from prime_async.evals.models import (
        TERMINAL_STATUSES as TERMINAL_STATUSES,
    )
    from prime_async.evals.models import (
        Evaluation as Evaluation,
    )
    from prime_async.evals.models import (
        EvaluationList as EvaluationList,
    )
    from prime_async.evals.models import (
        HostedEvaluation as HostedEvaluation,
    )
    from prime_async.evals.models import (
        ResolvedEnvironment as ResolvedEnvironment,
    )
    from prime_async.evals.models import (
        SamplePage as SamplePage,
    )
    from prime_async.evals.receipts import (
        PushReceipt as PushReceipt,
    )
    from prime_async.evals.receipts import (
        RefusedSample as RefusedSample,
    )
    from prime_async.evals.receipts import (
        ResumeToken as ResumeToken,
    )
    from prime_async.evals.runs import (
        PushedRun as PushedRun,
    )
    from prime_async.evals.sources import (
        check_path as check_path,
    )
    from prime_async.evals.sync import (
        InterruptedPush as InterruptedPush,
    )
    from prime_async.evals.sync import (
        SyncResult as SyncResult,
    )
    from prime_async.evals.sync import (
        interrupted_pushes as interrupted_pushes,
    )
    from prime_async.evals.verifiers import (
        ResultRun as ResultRun,
    )
    from prime_async.evals.verifiers import (
        find_runs as find_runs,
    )
    from prime_async.evals.verifiers import (
        load_run as load_run,
    )

__all__ = [
    "AsyncEvalsClient",
    "Evaluation",
    "EvaluationList",
    "FileCheck",
    "HostedEvaluation",
    "InterruptedPush",
    "MAX_PAYLOAD_BYTES",
    "OversizedLine",
    "PushReceipt",
    "PushedRun",
    "RefusedSample",
    "ResolvedEnvironment",
    "ResultRun",
    "ResumeToken",
    "SamplePage",
    "SyncResult",
    "TERMINAL_STATUSES",
    "check_path",
    "find_runs",
    "interrupted_pushes",
    "load_run",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AsyncEvalsClient": "prime_async.evals.client",
        "Evaluation": "prime_async.evals.models",
        "EvaluationList": "prime_async.evals.models",
        "FileCheck": "prime_async.evals.files",
        "HostedEvaluation": "prime_async.evals.models",
        "InterruptedPush": "prime_async.evals.sync",
        "MAX_PAYLOAD_BYTES": "prime_async.evals.batches",
        "OversizedLine": "prime_async.evals.files",
        "PushReceipt": "prime_async.evals.receipts",
        "PushedRun": "prime_async.evals.runs",
        "RefusedSample": "prime_async.evals.receipts",
        "ResolvedEnvironment": "prime_async.evals.models",
        "ResultRun": "prime_async.evals.verifiers",
        "ResumeToken": "prime_async.evals.receipts",
        "SamplePage": "prime_async.evals.models",
        "SyncResult": "prime_async.evals.sync",
        "TERMINAL_STATUSES": "prime_async.evals.models",
        "check_path": "prime_async.evals.sources",
        "find_runs": "prime_async.evals.verifiers",
        "interrupted_pushes": "prime_async.evals.sync",
        "load_run": "prime_async.evals.verifiers",
    },
)
