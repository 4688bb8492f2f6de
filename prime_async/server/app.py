"""Wires the application: middlewares, routes, and the life of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import anyio
from aiohttp import web

from prime_async.config.locks import FileLock
from prime_async.errors import ConfigError, LocalPlatformError
from prime_async.server.auth import ensure_key
from prime_async.server.clock import Clock
from prime_async.server.config import ServerConfig
from prime_async.server.endpoints import Endpoint, resources_of
from prime_async.server.exposed import serve_exposed
from prime_async.server.failures import RequestError
from prime_async.server.observing import mark_response, observe
from prime_async.server.origins import check_origin
from prime_async.server.platform import PLATFORM, Platform
from prime_async.server.routes import (
    accesses,
    checkpoints,
    environments,
    episodes,
    evaluations,
    exposures,
    gateway_commands,
    gateway_files,
    gateway_trees,
    hosted,
    identity,
    local,
    otlp,
    rft,
    rft_samples,
    run_leases,
    run_records,
    samples,
    sandbox_extras,
    sandbox_jobs,
    sandboxes,
    service,
    trace_runs,
    traces,
    volumes,
)
from prime_async.server.sandboxes.host import MakeRuntime
from prime_async.server.store.run_records import purge_leftover_records
from prime_async.server.store.samples import purge_leftovers

__all__ = [
    "API_ENDPOINTS",
    "API_PREFIX",
    "GATEWAY_ENDPOINTS",
    "GATEWAY_PREFIX",
    "INTERNAL_PREFIX",
    "RFT_ENDPOINTS",
    "ROOT_ENDPOINTS",
    "create_app",
]

API_PREFIX = "/api/v1"
INTERNAL_PREFIX = "/api/internal"
GATEWAY_PREFIX = "/gateway/{user_ns}/{sandbox_id}"

RFT_ENDPOINTS: tuple[Endpoint, ...] = (
    *rft.ENDPOINTS,
    *run_records.TRAIN_ENDPOINTS,
    *rft_samples.ENDPOINTS,
)
"""What runs of a launcher reach below ``INTERNAL_PREFIX`` as well."""

API_ENDPOINTS: tuple[Endpoint, ...] = (
    *evaluations.ENDPOINTS,
    *samples.ENDPOINTS,
    *run_records.EVAL_ENDPOINTS,
    *hosted.ENDPOINTS,
    *environments.ENDPOINTS,
    *identity.ENDPOINTS,
    *sandbox_jobs.ENDPOINTS,
    *checkpoints.ENDPOINTS,
    *volumes.FIXED,
    *exposures.FIXED,
    *sandbox_extras.FIXED,
    *accesses.ENDPOINTS,
    *sandboxes.ENDPOINTS,
    *volumes.OF_ONE,
    *exposures.OF_ONE,
    *sandbox_extras.OF_ONE,
    *run_leases.ENDPOINTS,
    *RFT_ENDPOINTS,
    rft_samples.UPLOAD,
    *traces.ENDPOINTS,
    *episodes.ENDPOINTS,
    *trace_runs.ENDPOINTS,
    *otlp.ENDPOINTS,
    *local.ENDPOINTS,
)
GATEWAY_ENDPOINTS: tuple[Endpoint, ...] = (
    *gateway_commands.ENDPOINTS,
    *gateway_files.ENDPOINTS,
    *gateway_trees.ENDPOINTS,
)
ROOT_ENDPOINTS: tuple[Endpoint, ...] = (*service.ENDPOINTS, *otlp.ROOT_ENDPOINTS)


def create_app(
    config: ServerConfig, *, clock: Clock | None = None, runtime: MakeRuntime | None = None
) -> web.Application:
    """Build the platform's application; its state opens at start-up and closes at clean-up.

    Raises:
        ConfigError: the configuration is unsafe or out of range.
    """
    config.check()
    app = web.Application(middlewares=[observe, serve_exposed, check_origin])
    app[PLATFORM] = Platform.make(config, clock, runtime)
    app.on_response_prepare.append(mark_response)
    app.cleanup_ctx.append(_state)
    for resource in _resources():
        app.router.register_resource(resource)
    return app


@cache
def _resources() -> tuple[web.Resource, ...]:
    """What is routed, made once for all platforms of a process; it takes as long as opening one."""
    return (
        *resources_of(API_PREFIX, API_ENDPOINTS),
        *resources_of(INTERNAL_PREFIX, RFT_ENDPOINTS),
        *resources_of(GATEWAY_PREFIX, GATEWAY_ENDPOINTS),
        *resources_of("", ROOT_ENDPOINTS),
    )


async def _install_key(platform: Platform, key: str) -> None:
    try:
        await platform.keys.install(key)
    except RequestError as failure:
        raise LocalPlatformError(f"the platform cannot start: {failure.message}") from failure


async def _state(app: web.Application) -> AsyncIterator[None]:
    platform = app[PLATFORM]
    lock = await anyio.to_thread.run_sync(_take_folder, platform.config)
    try:
        async with _opened(platform):
            yield
    finally:
        lock.release()


def _take_folder(config: ServerConfig) -> FileLock:
    """Lock the folder of a platform: a second one would remove what the first is just writing."""
    try:
        config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(config.lock_file)
        free = lock.try_acquire()
    except (OSError, ConfigError) as error:
        raise LocalPlatformError(
            f"cannot use the platform's folder {config.data_dir}: {error}",
            hint="check the folder's owner, mode and free space",
        ) from error
    if not free:
        raise LocalPlatformError(
            f"another platform uses the folder {config.data_dir}",
            hint="stop it, or give this one a folder of its own",
        )
    return lock


@asynccontextmanager
async def _opened(platform: Platform) -> AsyncIterator[None]:
    key = platform.config.api_key
    if key is None:
        key = await anyio.to_thread.run_sync(ensure_key, platform.config.key_file)
    await platform.database.open()
    try:
        await _install_key(platform, key)
        await purge_leftovers(platform.database)
        await purge_leftover_records(platform.database)
        await platform.runs.open()
        await platform.traces.open()
        await platform.sandboxes.open()
        yield
    finally:
        await platform.sandboxes.close()
        await platform.traces.close()
        await platform.database.close()
