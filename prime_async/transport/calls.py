"""One logical request over all its tries, and its answer read within bounds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import aiohttp
import yarl

from prime_async.errors import APIError, ProtocolError
from prime_async.transport.body import Body, StreamedBody

__all__ = ["Call", "read_answer", "refuse_compressed"]

_MAX_ANSWER = 256 * 2**20


@dataclass(slots=True)
class Call:
    """One logical request over all its tries."""

    method: str
    path: str
    url: str
    """What is shown of the address."""
    address: str | yarl.URL = field(repr=False)
    params: list[tuple[str, str]]
    headers: dict[str, str] = field(repr=False)  # the key is in it, and tools print local variables
    body: Body | StreamedBody | None
    safe: bool
    deduplicated_by: str | None
    deadline: float
    closings: int
    tries: int
    refused_by: Collection[str] = ()
    last_error: APIError | None = None
    unsettled: bool = False
    """A try ended so that the request may have been carried out, and a repeat could do harm."""
    perhaps_done: bool = False
    """A try ended so that the request may have been carried out."""


async def read_answer(raw: aiohttp.ClientResponse, call: Call) -> bytes:
    """Read a body to its end.

    Raises:
        ProtocolError: it is larger than any answer of the platform.
    """
    pieces: list[bytes] = []
    size = 0
    async for piece in raw.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_ANSWER:
            raise ProtocolError(
                f"the answer to {call.method} {call.url} is larger than {_MAX_ANSWER >> 20} MiB",
                status=raw.status,
                method=call.method,
                url=call.url,
            )
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def refuse_compressed(raw: aiohttp.ClientResponse, call: Call) -> None:
    """Refuse an encoded answer to a request for plain bytes.

    Raises:
        ProtocolError: it is encoded.
    """
    coding = raw.headers.get("Content-Encoding", "identity")
    if coding.strip().lower() != "identity":
        raise ProtocolError(
            f"{call.method} {call.url} answers a request for plain bytes with {coding}",
            status=raw.status,
            method=call.method,
            url=call.url,
            hint="a proxy on the way compresses what it should pass on",
        )
