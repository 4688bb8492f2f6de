"""Setting a push up: arguments checked, source opened, an earlier part found; then one `Push`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from prime_async import ids
from prime_async.api import AsyncAPIClient
from prime_async.errors import MethodNotAllowedError, NotFoundError, UsageError
from prime_async.evals.batches import MAX_PAYLOAD_BYTES, OVERHEAD
from prime_async.evals.encoding import SampleEncoder
from prime_async.evals.keeping import (
    Journal,
    Keeper,
    LastResort,
    NoKeeper,
    default_spool,
)
from prime_async.evals.ledger import Ledger
from prime_async.evals.push import SAMPLE_RANGES, Progress, Push, Source
from prime_async.evals.receipts import PushReceipt, ResumeToken, is_push_id
from prime_async.evals.sources import Samples, open_source
from prime_async.requests import DAY, check_range
from prime_async.spool import Meta, Ranges
from prime_async.transport import Transport, check_timeout, deadline, path_segment, running_loop

__all__ = ["LASTING", "Opened", "PushOptions", "push_opened", "push_samples", "stored_ranges"]

DEFAULT_CONCURRENT = 4

LASTING: dict[str, Any] = {"max_payload_bytes": MAX_PAYLOAD_BYTES, "strict": False, "trim": ()}
"""Arguments that a push in parts keeps from its first part on, with their defaults."""


@dataclass(frozen=True, slots=True)
class PushOptions:
    """Checked arguments of one push; see ``AsyncEvalsClient.push_samples``."""

    token: ResumeToken
    continues: bool
    ceiling: int
    max_concurrent: int
    progress: Progress | None
    strict: bool
    trim: tuple[str, ...]
    timeout: float

    @classmethod
    def checked(
        cls,
        evaluation_id: str,
        *,
        max_payload_bytes: int | None = None,
        max_concurrent: int | None = None,
        max_workers: int | None = None,
        progress: Progress | None = None,
        strict: bool = False,
        trim: Sequence[str] = (),
        push_id: str | None = None,
        resume: str | None = None,
        timeout: float | None = None,
    ) -> PushOptions:
        """Check everything that can be checked before the source is touched.

        Raises:
            UsageError: names the argument.
        """
        path_segment(evaluation_id, "evaluation_id")
        if progress is not None and not callable(progress):
            raise UsageError(
                f"progress_callback is a {type(progress).__name__}, which cannot be called",
                field="progress_callback",
            )
        ceiling = MAX_PAYLOAD_BYTES if max_payload_bytes is None else max_payload_bytes
        check_range("max_payload_bytes", ceiling, OVERHEAD + 2)
        return cls(
            token=_token(evaluation_id, push_id, resume),
            continues=push_id is not None or resume is not None,
            ceiling=ceiling,
            max_concurrent=_concurrency(max_concurrent, max_workers),
            progress=progress,
            strict=strict,
            trim=_field_names(trim),
            timeout=check_timeout(timeout, DAY),
        )

    def encoder(self) -> SampleEncoder:
        """Make the encoder of this push."""
        return SampleEncoder(limit=self.ceiling - OVERHEAD, strict=self.strict, trim=self.trim)

    def lasting(self) -> dict[str, Any]:
        """Return what a later process needs to go on in the same way; arguments of `checked`."""
        given = {"max_payload_bytes": self.ceiling, "strict": self.strict, "trim": self.trim}
        return {name: given[name] for name, usual in LASTING.items() if given[name] != usual}


def _concurrency(max_concurrent: int | None, max_workers: int | None) -> int:
    given = {"max_concurrent": max_concurrent, "max_workers": max_workers}
    found = {name: value for name, value in given.items() if value is not None}
    for name, value in found.items():
        check_range(name, value, 1)
    if len(set(found.values())) > 1:
        raise UsageError(
            "max_workers is another name of max_concurrent; give one", field="max_workers"
        )
    return next(iter(found.values()), DEFAULT_CONCURRENT)


def _field_names(trim: Sequence[str]) -> tuple[str, ...]:
    if isinstance(trim, str):
        raise UsageError("trim is a single text", field="trim", hint=f"trim=[{trim!r}]")
    if not isinstance(trim, Iterable) or not all(isinstance(name, str) for name in trim):
        raise UsageError("trim is not a list of field names", field="trim")
    return tuple(trim)


def _token(evaluation_id: str, push_id: str | None, resume: str | None) -> ResumeToken:
    if resume is not None:
        token = ResumeToken.parse(resume)
        if token.evaluation_id != evaluation_id:
            raise UsageError(
                f"the resume token is of evaluation {token.evaluation_id}, not {evaluation_id}",
                field="resume",
            )
        if push_id is not None and push_id != token.push_id:
            raise UsageError(f"the resume token belongs to push {token.push_id}", field="push_id")
        return token
    if push_id is not None and not is_push_id(push_id):
        raise UsageError(
            f"push_id {push_id!r} is not 1 to 64 of letters, digits, - and _, beginning with a "
            "letter or digit",
            field="push_id",
        )
    return ResumeToken(evaluation_id, push_id or ids.new_id("push"))


async def push_samples(
    api: AsyncAPIClient, samples: Samples, options: PushOptions, keeper: Keeper | None = None
) -> PushReceipt:
    """Push; see ``AsyncEvalsClient.push_samples``.

    Args:
        api: the connection.
        samples: what to push.
        options: how.
        keeper: told about every step; by default what fits the source.
    """
    running_loop()  # a source needs it before anything is sent
    until = anyio.current_time() + options.timeout
    with deadline(options.timeout, f"preparing the push to {options.token.evaluation_id}"):
        encoder, skip = options.encoder(), Ranges()
        source = await open_source(samples, encoder, skip)
        push = await _prepare(api, Opened(source, encoder, skip), options, keeper)
    return await push.run(options.timeout, until=until)


@dataclass(frozen=True, slots=True)
class Opened:
    """A source that is open.

    Attributes:
        source: gives the samples.
        encoder: encodes or measures them; the source keeps this very object.
        skip: what it passes over; the source keeps this very set, which is filled before the first
            sample is read.
    """

    source: Source
    encoder: SampleEncoder
    skip: Ranges


async def push_opened(api: AsyncAPIClient, opened: Opened, options: PushOptions) -> PushReceipt:
    """Push a source that was opened, and a file that was checked, before it was clear where to."""
    until = anyio.current_time() + options.timeout
    with deadline(options.timeout, f"preparing the push to {options.token.evaluation_id}"):
        push = await _prepare(api, opened, options, None)
    return await push.run(options.timeout, until=until)


async def _prepare(
    api: AsyncAPIClient, opened: Opened, options: PushOptions, keeper: Keeper | None
) -> Push:
    transport = await api.connect()
    token = options.token
    if options.continues:
        # Where the platform keeps ranges, its word replaces the token's: what that calls unknown
        # may be missing.
        token = await _as_the_platform_knows_it(transport, token)
    opened.skip.update(token.settled)
    if keeper is None:
        keeper = await _keeper(api, opened.source, token, options)
    return Push(
        transport,
        token,
        opened.source,
        Ledger(token, opened.encoder, keeper),
        keeper,
        ceiling=options.ceiling,
        max_concurrent=options.max_concurrent,
        progress=options.progress,
    )


async def _as_the_platform_knows_it(transport: Transport, token: ResumeToken) -> ResumeToken:
    """Trust the platform over the token where it keeps ranges: it knows what arrived after the
    token was written.
    """
    stored = await stored_ranges(transport, token)
    if stored is None:
        return token
    return ResumeToken(token.evaluation_id, token.push_id, stored)


async def stored_ranges(transport: Transport, token: ResumeToken) -> Ranges | None:
    """Ask which samples of a push are stored; None where the platform cannot tell.

    Raises:
        APIError: the platform cannot be asked.
    """
    evaluation = path_segment(token.evaluation_id, "evaluation_id")
    path = f"/evaluations/{evaluation}/pushes/{path_segment(token.push_id, 'push_id')}"
    try:
        response = await transport.request("GET", path)
    except (NotFoundError, MethodNotAllowedError) as error:
        known = SAMPLE_RANGES in transport.features
        return Ranges() if known and error.code == "push_not_found" else None
    if SAMPLE_RANGES not in transport.features:
        return None  # whatever answered that address, it does not speak of ranges
    try:
        return Ranges.from_list(response.json().get("ranges"))
    except UsageError as error:
        raise response.broken(f"names no proper ranges: {error.message}") from error


async def _keeper(
    api: AsyncAPIClient, source: Source, token: ResumeToken, options: PushOptions
) -> Keeper:
    if source.rereadable and source.source is None:
        return NoKeeper()
    meta = Meta(
        base_url=api.base_url,
        context=api.settings.context,
        target={"evaluation_id": token.evaluation_id, "push_id": token.push_id},
        source=source.source,
        extra=options.lasting(),
    )
    if source.rereadable:
        return await Journal.open(default_spool(), token.push_id, meta)
    return LastResort(default_spool(), token.push_id, meta)
