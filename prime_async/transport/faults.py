"""What aiohttp's exceptions mean for a caller: did the request arrive, and may it help to try
again?
"""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
from aiohttp.client_exceptions import UnixClientConnectorError

from prime_async.errors import APIConnectionError, APIError, APITimeoutError, ProtocolError
from prime_async.transport.network import CA_VARIABLES
from prime_async.transport.sessions import CONNECT_TIMEOUT

__all__ = ["Fault", "classify"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A request that got no complete answer.

    Attributes:
        what: words for the message.
        arrived: False when it provably never reached the platform.
        retryable: whether another try can end differently.
        kind: class of the error.
    """

    what: str
    arrived: bool
    retryable: bool
    kind: type[APIError] = APIConnectionError
    hint: str | None = None

    def to_error(self, *, method: str, url: str, safe: bool) -> APIError:
        """Make the error; unless the call is safe to repeat, it says that it may have been carried
        out.
        """
        ambiguous = self.arrived and not safe
        error = self.kind(
            f"{method} {url}: {self.what}",
            method=method,
            url=url,
            ambiguous=ambiguous,
            retryable=self.retryable,
            hint="it may have been carried out" if ambiguous and self.hint is None else self.hint,
        )
        if isinstance(error, APITimeoutError):
            error.budget, error.seconds = "connect", CONNECT_TIMEOUT
        return error


def classify(error: Exception) -> Fault | None:
    """Explain an exception of aiohttp; None when it is not one."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return _tls_fault(error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        what = f"no connection within {CONNECT_TIMEOUT:g} s"
        return Fault(what, arrived=False, retryable=True, kind=APITimeoutError)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return Fault(f"the proxy cannot be reached: {_words(error)}", arrived=False, retryable=True)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Fault(
            f"the proxy answered {error.status} {error.message}", arrived=False, retryable=False
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unreachable(error)
    if isinstance(
        error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError | aiohttp.TooManyRedirects
    ):
        return Fault(f"{type(error).__name__}: {error}", arrived=False, retryable=False)
    if isinstance(error, aiohttp.ClientResponseError):
        what = f"the answer is not proper HTTP: {error.message}"
        return Fault(what, arrived=True, retryable=True, kind=ProtocolError)
    if isinstance(error, aiohttp.ClientPayloadError):
        return Fault(f"the answer broke off: {_words(error)}", arrived=True, retryable=True)
    if isinstance(error, aiohttp.ClientError | ConnectionError):
        return Fault(f"the connection broke: {_words(error)}", arrived=True, retryable=True)
    return None


def _unreachable(error: aiohttp.ClientConnectorError) -> Fault:
    if not isinstance(error, UnixClientConnectorError):
        return Fault(f"cannot connect: {_words(error)}", arrived=False, retryable=True)
    what = f"the embedded platform does not answer on {error.path}: {_words(error)}"
    hint = "`prime-async local start` starts it, `prime-async local logs` shows what it said"
    return Fault(what, arrived=False, retryable=True, hint=hint)


def _tls_fault(
    error: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError,
) -> Fault:
    hint = "does this address speak https?"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        hint = f"for a private certificate authority set one of {', '.join(CA_VARIABLES)}"
    return Fault(f"TLS failed: {_words(error)}", arrived=False, retryable=False, hint=hint)


def _words(error: Exception) -> str:
    reason = getattr(error, "os_error", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
    return str(text)
