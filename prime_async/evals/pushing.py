"""Setting a push up: arguments checked, source opened, an earlier part found; then one `Push`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import anyio

from prime_async import ids
from prime_async.api import AsyncAPIClient
from prime_async.errors import NotFoundError, UsageError
from prime_async.evals.batches import MAX_PAYLOAD_BYTES, OVERHEAD
from prime_async.evals.encoding import SampleEncoder
from prime_async.evals.keeping import (
    Journal,
    Keeper,
    LastResort,
    NoKeeper,
    default_spool,
    journal_meta,
)
from prime_async.evals.ledger import Ledger
from prime_async.evals.push import SAMPLE_RANGES, Progress, Push, Source
from prime_async.evals.receipts import PushReceipt, ResumeToken, is_push_id
from prime_async.evals.sources import Samples, open_source
from prime_async.spool import Ranges
from prime_async.transport import Transport, check_timeout, deadline, path_segment

__all__ = ["DEFAULT_CONCURRENT", "DEFAULT_TIMEOUT", "PushOptions", "push_samples", "stored_ranges"]

DEFAULT_CONCURRENT = 4
DEFAULT_TIMEOUT = 86_400.0


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
        return cls(
            token=_token(evaluation_id, push_id, resume),
            continues=push_id is not None or resume is not None,
            ceiling=_whole("max_payload_bytes", ceiling, OVERHEAD + 2),
            max_concurrent=_concurrency(max_concurrent, max_workers),
            progress=progress,
            strict=strict,
            trim=_field_names(trim),
            timeout=check_timeout(timeout, DEFAULT_TIMEOUT),
        )


def _concurrency(max_concurrent: int | None, max_workers: int | None) -> int:
    given = {"max_concurrent": max_concurrent, "max_workers": max_workers}
    found = [_whole(name, value, 1) for name, value in given.items() if value is not None]
    if len(set(found)) > 1:
        raise UsageError(
            "max_workers is another name of max_concurrent; give one", field="max_workers"
        )
    return found[0] if found else DEFAULT_CONCURRENT


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


async def push_samples(api: AsyncAPIClient, samples: Samples, options: PushOptions) -> PushReceipt:
    """Push; see ``AsyncEvalsClient.push_samples``."""
    until = anyio.current_time() + options.timeout
    with deadline(options.timeout, f"preparing the push to {options.token.evaluation_id}"):
        push = await _prepare(api, samples, options)
    return await push.run(options.timeout, until=until)


async def _prepare(api: AsyncAPIClient, samples: Samples, options: PushOptions) -> Push:
    encoder = SampleEncoder(
        limit=options.ceiling - OVERHEAD, strict=options.strict, trim=options.trim
    )
    # The source keeps this very set; it is filled before the first sample is read. Where the
    # platform keeps ranges, its word replaces the token's: what that calls unknown may be missing.
    skip = Ranges()
    source = await open_source(samples, encoder, skip)
    transport = await api.connect()
    token = options.token
    if options.continues:
        token = await _as_the_platform_knows_it(transport, token)
    skip.update(token.settled)
    keeper = await _keeper(api, source, token)
    return Push(
        transport,
        token,
        source,
        Ledger(token, encoder, keeper),
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
    except NotFoundError as error:
        known = SAMPLE_RANGES in transport.features
        return Ranges() if known and error.code == "push_not_found" else None
    return Ranges.from_list(response.json().get("ranges", []))


async def _keeper(api: AsyncAPIClient, source: Source, token: ResumeToken) -> Keeper:
    if source.rereadable and source.source is None:
        return NoKeeper()
    meta = journal_meta(
        token.evaluation_id, token.push_id, api.base_url, api.settings.context, source.source
    )
    if source.rereadable:
        return await Journal.open(default_spool(), token.push_id, meta)
    return LastResort(default_spool(), token.push_id, meta)


def _whole(field: str, value: int | None, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise UsageError(
            f"{field} is {value!r}; it must be a whole number, at least {lowest}", field=field
        )
    return value
