"""Tokens of the gateway: for one sandbox each, short-lived, checked without a look-up.

A token is ``sandbox.expiry.mark`` and its HMAC under a key that only this platform has, so that
tokens stay good when the server is started again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from prime_async.server.clock import Clock

__all__ = ["Tokens"]

_PREFIX = "sbx1"
_LONGEST = 512


class Tokens:
    """Makes and checks tokens.

    Args:
        key: what they are signed with.
        clock: what time it is.
        seconds: how long one is good.
    """

    def __init__(self, key: str, clock: Clock, seconds: float) -> None:
        self._key = hashlib.sha256(f"gateway\n{key}".encode()).digest()
        self._clock = clock
        self._seconds = seconds

    def make(self, sandbox_id: str) -> tuple[str, float]:
        """Return a token for a sandbox, and when it ends (seconds since the epoch)."""
        ends = int(self._clock.now() + self._seconds)
        body = f"{_PREFIX}.{sandbox_id}.{ends}.{secrets.token_urlsafe(9)}"
        return f"{body}.{self._sign(body)}", float(ends)

    def fits(self, authorization: str | None, sandbox_id: str) -> bool:
        """Whether an ``Authorization`` header holds a token for this sandbox that has not ended."""
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or len(token) > _LONGEST or not token.isascii():
            return False
        body, _, signature = token.rpartition(".")
        # The signature first and in constant time: nothing of a forged token is looked at.
        if not hmac.compare_digest(signature, self._sign(body)):
            return False
        parts = body.split(".")
        return len(parts) == 4 and parts[1] == sandbox_id and int(parts[2]) > self._clock.now()

    def _sign(self, body: str) -> str:
        digest = hmac.digest(self._key, body.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
