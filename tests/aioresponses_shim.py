"""Makes aioresponses 0.7.9 work with aiohttp 3.14 (pnuckowski/aioresponses#289).

aiohttp 3.14 gave ``ClientResponse`` a required ``stream_writer`` argument that aioresponses does
not pass. Import ``aioresponses`` from here. ``test_aioresponses_shim.py`` fails when a release
makes this file unnecessary.

aioresponses replaces the session's request method: bodies are not encoded, timeouts never fire.
Anything about the wire itself is tested against the stub, the fault proxy or the embedded platform.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import aiohttp
from aioresponses import aioresponses, core

__all__ = ["aioresponses"]


class _Response(aiohttp.ClientResponse):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("stream_writer", Mock(output_size=0))
        super().__init__(*args, **kwargs)


setattr(core, "ClientResponse", _Response)  # noqa: B010  # not an exported name, to mypy
