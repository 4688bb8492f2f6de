"""Runs: evaluations and training runs that stream their traces, metrics and samples."""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from prime_async.runs.config_source import (
        CONFIG_SOURCE_KEY as CONFIG_SOURCE_KEY,
    )
    from prime_async.runs.config_source import (
        ConfigSource as ConfigSource,
    )
    from prime_async.runs.counters import Counts as Counts
    from prime_async.runs.errors import (
        ConfigurationError as ConfigurationError,
    )
    from prime_async.runs.errors import (
        EnvironmentResolutionError as EnvironmentResolutionError,
    )
    from prime_async.runs.errors import (
        PrimeRunsError as PrimeRunsError,
    )
    from prime_async.runs.errors import (
        RunFinishedError as RunFinishedError,
    )
    from prime_async.runs.errors import (
        UndeliveredError as UndeliveredError,
    )
    from prime_async.runs.kept import (
        KeptRecords as KeptRecords,
    )
    from prime_async.runs.kept import (
        kept_records as kept_records,
    )
    from prime_async.runs.opening import init as init
    from prime_async.runs.options import (
        MODE_ENV as MODE_ENV,
    )
    from prime_async.runs.options import (
        TRACES_OPT_OUT_ENV as TRACES_OPT_OUT_ENV,
    )
    from prime_async.runs.options import (
        BatchReceipt as BatchReceipt,
    )
    from prime_async.runs.options import (
        EnvironmentRef as EnvironmentRef,
    )
    from prime_async.runs.options import (
        RunKind as RunKind,
    )
    from prime_async.runs.options import (
        RunStatus as RunStatus,
    )
    from prime_async.runs.options import (
        TrainingSpec as TrainingSpec,
    )
    from prime_async.runs.reading import AsyncRunsClient as AsyncRunsClient
    from prime_async.runs.receipts import (
        FinishReceipt as FinishReceipt,
    )
    from prime_async.runs.receipts import (
        RefusedRecord as RefusedRecord,
    )
    from prime_async.runs.receipts import (
        RunStats as RunStats,
    )
    from prime_async.runs.replay import (
        SyncedRecords as SyncedRecords,
    )
    from prime_async.runs.replay import (
        sync_runs as sync_runs,
    )
    from prime_async.runs.replay import (
        watch_runs as watch_runs,
    )
    from prime_async.runs.run import AsyncRun as AsyncRun

__all__ = [
    "AsyncRun",
    "AsyncRunsClient",
    "BatchReceipt",
    "CONFIG_SOURCE_KEY",
    "ConfigSource",
    "ConfigurationError",
    "Counts",
    "EnvironmentRef",
    "EnvironmentResolutionError",
    "FinishReceipt",
    "KeptRecords",
    "MODE_ENV",
    "PrimeRunsError",
    "RefusedRecord",
    "RunFinishedError",
    "RunKind",
    "RunStats",
    "RunStatus",
    "SyncedRecords",
    "TRACES_OPT_OUT_ENV",
    "TrainingSpec",
    "UndeliveredError",
    "init",
    "kept_records",
    "sync_runs",
    "watch_runs",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AsyncRun": "prime_async.runs.run",
        "AsyncRunsClient": "prime_async.runs.reading",
        "BatchReceipt": "prime_async.runs.options",
        "CONFIG_SOURCE_KEY": "prime_async.runs.config_source",
        "ConfigSource": "prime_async.runs.config_source",
        "ConfigurationError": "prime_async.runs.errors",
        "Counts": "prime_async.runs.counters",
        "EnvironmentRef": "prime_async.runs.options",
        "EnvironmentResolutionError": "prime_async.runs.errors",
        "FinishReceipt": "prime_async.runs.receipts",
        "KeptRecords": "prime_async.runs.kept",
        "MODE_ENV": "prime_async.runs.options",
        "PrimeRunsError": "prime_async.runs.errors",
        "RefusedRecord": "prime_async.runs.receipts",
        "RunFinishedError": "prime_async.runs.errors",
        "RunKind": "prime_async.runs.options",
        "RunStats": "prime_async.runs.receipts",
        "RunStatus": "prime_async.runs.options",
        "SyncedRecords": "prime_async.runs.replay",
        "TRACES_OPT_OUT_ENV": "prime_async.runs.options",
        "TrainingSpec": "prime_async.runs.options",
        "UndeliveredError": "prime_async.runs.errors",
        "init": "prime_async.runs.opening",
        "kept_records": "prime_async.runs.kept",
        "sync_runs": "prime_async.runs.replay",
        "watch_runs": "prime_async.runs.replay",
    },
)
