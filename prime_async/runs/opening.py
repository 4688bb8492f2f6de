"""``init``: from arguments to a run on the platform."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from prime_async.api import AsyncAPIClient
from prime_async.config import PrimePaths, Settings, home_directory
from prime_async.errors import InvalidEvaluationError
from prime_async.evals.environments import EnvironmentSpec, check_environments
from prime_async.runs.backends import Handle, create_run, url_of
from prime_async.runs.config_source import ConfigSource, checked_config
from prime_async.runs.core import RunCore
from prime_async.runs.errors import ConfigurationError
from prime_async.runs.opened import Connection, OpenedRun
from prime_async.runs.options import (
    MODE_ENV,
    DeliveryOptions,
    EnvironmentRef,
    OnBatch,
    QueuePolicy,
    Redact,
    RunKind,
    RunSpec,
    TrainingSpec,
    checked_choice,
    checked_seconds,
)
from prime_async.runs.run import AsyncRun
from prime_async.runs.step_samples import check_way_of_samples
from prime_async.runs.uploader import in_thread, uploader
from prime_async.spool import Spool
from prime_async.traces import compression
from prime_async.traces.api import AsyncTracesAPIClient
from prime_async.traces.errors import in_family
from prime_async.transport import RetryPolicy, deadline

__all__ = ["init"]

_LOG = logging.getLogger("prime_async.runs")


async def init(
    *,
    name: str | None = None,
    model: str | None = None,
    framework: str | None = None,
    description: str | None = None,
    tags: Sequence[str] | None = None,
    environments: Sequence[EnvironmentSpec | EnvironmentRef] | None = None,
    config: Mapping[str, Any] | ConfigSource | str | PathLike[str] | None = None,
    project: str | None = None,
    kind: RunKind | str = RunKind.EVAL,
    training: TrainingSpec | None = None,
    id: str | None = None,  # noqa: A002 - its name in the official client
    mode: str | None = None,
    team_id: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    context: str | None = None,
    traces_opt_out: bool | None = None,
    on_error: str = "warn",
    finish_timeout: float | None = None,
    exit_timeout: float | None = None,
    queue_bytes: int | None = None,
    queue_policy: QueuePolicy | None = None,
    put_timeout: float | None = None,
    spool_dir: str | PathLike[str] | None = None,
    spool_bytes: int | None = None,
    concurrency: int | None = None,
    gzip_level: int | None = None,
    durable: bool = False,
    redact: Redact | None = None,
    on_batch: OnBatch | None = None,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
) -> AsyncRun:
    """Open a run on the platform and return it.

    Args:
        name: of the run; an evaluation without one is called after its environment.
        model: model id; a training run needs one.
        framework, description, tags: describe it.
        environments: what is evaluated or trained in: ``"owner/name"`` (must exist), a bare name
            (made when it does not), an `EnvironmentRef`, or a mapping with ``id``, ``slug`` or
            ``name`` and perhaps ``version_id``. An evaluation needs one.
        config: its configuration: a mapping; or a file or `ConfigSource`, stored word for word.
        project: begins the default name, and is said of every trace.
        kind: ``eval`` or ``train``.
        training: what the platform is told about a training run.
        id: log to this run, which exists; nothing is created.
        mode: ``online``, or ``disabled``: nothing is kept or sent. Default is ``PRIME_RUNS_MODE``,
            then online; disabled with a warning where no key is configured.
        team_id, api_key, base_url, context: as for :class:`AsyncAPIClient`.
        traces_opt_out: keep away from the traces service and send rows to the older tables; default
            is what environment and configuration say, and they cannot be overruled. Of a training
            run these are files of Parquet, for every tenth step (extra ``parquet``).
        on_error: ``warn`` contains what fails after this call; ``raise`` has ``flush`` and
            ``finish`` raise it.
        finish_timeout: seconds that ``finish`` delivers for; default 300.
        exit_timeout: the same when the process is told to end, or ends; default 10. What is not
            delivered by then is kept on disk.
        queue_bytes: memory for records that wait or are on their way; default 256 MiB.
        queue_policy: what a full queue does: ``drop_new`` (the default), ``drop_old``, which is
            ``drop_new`` while all of it is on its way, or ``spool``, which writes to disk in the
            call that logs.
        put_timeout: seconds that ``alog_*`` waits for room; default 5.
        spool_dir: where records are kept that cannot be delivered; default ``~/.prime/spool``.
        spool_bytes: limit of that folder, over all that is in it; default 1 GiB. What does not fit
            is counted as lost.
        concurrency: batches on their way at a time; default 4.
        gzip_level: 0 to 9, compresses traces with gzip of this level; default is what is fastest of
            what the platform reads.
        durable: write each record to disk before the call that logs it returns.
        redact: called with each record before it is encoded; returns the one to log, or None.
        on_batch: called in a thread with the receipt of each batch that arrived.
        retry: how often and how soon a failed request is repeated.
        timeout: seconds in all until the run is open; default 60 for each request it takes.

    Raises:
        APITimeoutError: it was not open in time; one that was created meanwhile has no owner, and
            the platform fails it.
        ConfigurationError: an argument is wrong, before any request.
        EnvironmentResolutionError: an environment does not exist.
        PrimeTracesError: the run cannot be created; whatever ``on_error`` says.
    """
    seconds = None if timeout is None else checked_seconds("timeout", timeout)
    options = DeliveryOptions.checked(
        on_error=on_error,
        finish_timeout=finish_timeout,
        exit_timeout=exit_timeout,
        queue_bytes=queue_bytes,
        queue_policy=queue_policy,
        put_timeout=put_timeout,
        spool_dir=spool_dir,
        spool_bytes=spool_bytes,
        concurrency=concurrency,
        gzip_level=gzip_level,
        durable=durable,
        redact=redact,
        on_batch=on_batch,
        retry=retry,
    )
    with in_family():
        connect = _connector(api_key, base_url, team_id, context, retry)
        settings = connect().api.settings
        spec = RunSpec(
            kind=RunKind(checked_choice("kind", kind, [one.value for one in RunKind])),
            name=name,
            project=project,
            model=model,
            framework=framework,
            description=description,
            tags=_checked_tags(tags),
            environments=_checked_environments(environments),
            config=checked_config(config, settings.api_key or ""),
            training=training,
        )
        if _mode(mode, settings) == "disabled":
            return AsyncRun(_disabled(spec, options, id))
        _check(spec, settings, id)
        opening = _Opening(connect, settings, spec, options, _opts_out(traces_opt_out, settings))
        future = uploader().submit(lambda: opening.open(id), "open a run")
        with deadline(math.inf if seconds is None else seconds, "opening the run"):
            core = await asyncio.wrap_future(future)
        run = AsyncRun(core)
    run._handed_over()
    return run


class _Opening:
    """Everything that is known before the platform is asked."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        settings: Settings,
        spec: RunSpec,
        options: DeliveryOptions,
        opt_out: bool,
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._spec = spec
        self._options = options
        self._opt_out = opt_out

    async def open(self, run_id: str | None) -> RunCore:
        """Create the run, or take the one that is named; begin to deliver. On the uploader."""
        with in_family():
            connection = self._connect()
            try:
                if self._opt_out and self._spec.kind is RunKind.TRAIN:
                    await check_way_of_samples(connection.api)
                if run_id is None:
                    handle = await create_run(connection.api, self._spec)
                else:
                    await connection.api.connect()  # the context `local` is started by this
                    handle = self._named(run_id)
            except BaseException:
                await connection.aclose()
                raise
        if not self._opt_out:
            await in_thread(compression.load)
        settings = connection.api.settings
        core = RunCore(self._opened(handle, settings, attached=run_id is not None))
        core.start(connection)
        return core

    def _named(self, run_id: str) -> Handle:
        name = self._spec.name or run_id
        return Handle(run_id, name, url_of(self._spec.kind, run_id, self._settings.frontend_url))

    def _opened(self, handle: Handle, settings: Settings, *, attached: bool) -> OpenedRun:
        return OpenedRun(
            handle=handle,
            spec=self._spec,
            options=self._options,
            attached=attached,
            opt_out=self._opt_out,
            connect=self._connect,
            base_url=settings.base_url,
            context=settings.context,
            secret=settings.api_key or "",
            spool=_spool(self._options),
        )


def _connector(
    api_key: str | None,
    base_url: str | None,
    team_id: str | None,
    context: str | None,
    retry: RetryPolicy | None,
) -> Callable[[], Connection]:
    def connect() -> Connection:
        api = AsyncAPIClient(
            api_key, base_url=base_url, team_id=team_id, context=context, retry=retry
        )
        return Connection(api, AsyncTracesAPIClient._beside(api))

    return connect


def _mode(mode: str | None, settings: Settings) -> str:
    said = mode if mode is not None else os.environ.get(MODE_ENV, "").strip() or None
    if said is not None:
        return checked_choice("mode", said, ("online", "disabled"))
    if settings.api_key or settings.context == "local":
        return "online"
    _LOG.warning("run: no API key is configured, so nothing is recorded (mode disabled)")
    return "disabled"


def _disabled(spec: RunSpec, options: DeliveryOptions, run_id: str | None) -> RunCore:
    run_id = run_id or f"disabled-{secrets.token_hex(8)}"
    return RunCore(
        OpenedRun(
            handle=Handle(run_id, spec.name or run_id, None),
            spec=spec,
            options=options,
            attached=False,
            opt_out=False,
            connect=None,
            base_url="",
            context="",
            secret="",
            spool=None,
        )
    )


def _check(spec: RunSpec, settings: Settings, run_id: str | None) -> None:
    """Check what a new run needs."""
    if settings.strict_local and settings.context != "local":
        raise ConfigurationError(
            "strict_local is set: nothing may be sent to another platform than the embedded one",
            field="mode",
            hint="use the context local, or mode='disabled'",
        )
    if run_id is not None:
        return
    if spec.training is not None and spec.kind is RunKind.EVAL:
        raise ConfigurationError("training belongs to runs of kind 'train'", field="training")
    if spec.kind is RunKind.EVAL and not spec.environments:
        raise ConfigurationError(
            "an evaluation needs an environment",
            field="environments",
            hint='environments=["owner/name"]',
        )
    if spec.kind is RunKind.TRAIN and not spec.model:
        raise ConfigurationError("a training run needs a model", field="model")


def _checked_tags(tags: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise ConfigurationError("tags is a single text", field="tags", hint=f"tags=[{tags!r}]")
    return tuple(tags or ())


def _checked_environments(
    environments: Sequence[EnvironmentSpec | EnvironmentRef] | None,
) -> tuple[Mapping[str, Any], ...]:
    if environments is None:
        return ()
    plain = [
        one.to_mapping() if isinstance(one, EnvironmentRef) else one
        for one in ([environments] if isinstance(environments, str | Mapping) else environments)
    ]
    try:
        check_environments(environments if isinstance(environments, str | Mapping) else plain)
    except InvalidEvaluationError as error:
        raise ConfigurationError(error.message, field=error.field, hint=error.hint) from error
    return tuple(_as_mapping(one) for one in plain)


def _as_mapping(one: EnvironmentSpec) -> Mapping[str, Any]:
    if isinstance(one, str):
        return {"slug": one} if "/" in one else {"name": one}
    return one


def _opts_out(argument: bool | None, settings: Settings) -> bool:
    return bool(argument) or settings.traces_opt_out


def _spool(options: DeliveryOptions) -> Spool | None:
    if options.spool_dir is not None:
        return Spool(options.spool_dir, max_bytes=options.spool_bytes)
    home = home_directory()
    if home is None:
        return None
    return Spool(PrimePaths(home).root / "spool", max_bytes=options.spool_bytes)
