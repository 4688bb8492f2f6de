"""Reading pages of samples: decoded one by one, so that a page of large samples does not hold the
event loop.
"""

from __future__ import annotations

import time
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from prime_async.evals.models import SamplePage
from prime_async.transport import Response

__all__ = ["decode_samples"]

_TURN_SECONDS = 0.002


class _RawPage(msgspec.Struct):
    """A page whose samples are still text."""

    samples: list[msgspec.Raw] = msgspec.field(default_factory=list)


_OUTER = msgspec.json.Decoder(_RawPage)
_REST = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def decode_samples(response: Response) -> SamplePage:
    """Decode a page.

    Raises:
        ProtocolError: the answer is not a page of samples.
    """
    try:
        # Each of the two passes over the whole text is a turn of its own: about 2 ms per megabyte.
        samples = _OUTER.decode(response.body).samples
        await anyio.lowlevel.checkpoint()
        wire: dict[str, Any] = {
            key: msgspec.json.decode(raw)
            for key, raw in _REST.decode(response.body).items()
            if key != "samples"
        }
        await anyio.lowlevel.checkpoint()
        wire["samples"] = await _decode_all(samples)
        return SamplePage.from_wire(wire)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise response.broken(f"is not a page of samples ({error})") from error


async def _decode_all(raws: list[msgspec.Raw]) -> list[Any]:
    samples = []
    over = time.perf_counter() + _TURN_SECONDS
    for raw in raws:
        samples.append(msgspec.json.decode(raw))
        if time.perf_counter() >= over:
            await anyio.lowlevel.checkpoint()
            over = time.perf_counter() + _TURN_SECONDS
    return samples
