"""The two things a company network changes: proxies and certificate authorities."""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field

from prime_async.errors import ConfigError

__all__ = ["CA_VARIABLES", "Proxy", "proxy_for", "tls_context"]

CA_VARIABLES = ("PRIME_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name certificate authorities; the first that is set counts."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy: its address without credentials, and the header that carries them."""

    url: str
    headers: Mapping[str, str] = field(repr=False)


def proxy_for(url: str) -> Proxy | None:
    """Find the proxy the environment names for a URL, or None.

    Reads ``https_proxy``, ``http_proxy``, ``all_proxy`` and ``no_proxy`` in lower and upper case,
    on every call, so that a change counts for the next session. User and password may be
    percent-encoded. ``no_proxy`` lists hosts, domains (``x.com``, ``.x.com``, ``*.x.com``), any of
    them with a port, addresses and networks (``10.0.0.0/8``), or is ``*``.

    Raises:
        ConfigError: the variable holds no usable address.
    """
    parts = urllib.parse.urlsplit(url)
    proxies = urllib.request.getproxies_environment()
    address = proxies.get(parts.scheme) or proxies.get("all")
    if not address or urllib.request.proxy_bypass(parts.netloc):
        return None
    if _is_excepted(parts.hostname or "", proxies.get("no", "")):
        return None
    return _parse_proxy(address.strip(), parts.scheme)


def _is_excepted(host: str, listed: str) -> bool:
    """Say whether ``no_proxy`` names a host in a way that the standard library does not know."""
    entries = [entry.strip().lower() for entry in listed.split(",")]
    if any(entry.startswith("*.") and host.endswith(entry[1:]) for entry in entries):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return any(address in network for network in map(_network, entries) if network is not None)


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return None


def _parse_proxy(address: str, scheme: str) -> Proxy:
    if "://" not in address:
        address = f"http://{address}"
    try:
        parts = urllib.parse.urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigError(
            f"the proxy set for {scheme} in the environment is not an http address",
            hint=f"set {scheme.upper()}_PROXY to http://[user:password@]host:port",
        )
    bare = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}" + (f":{port}" if port else "")
    return Proxy(bare, _credentials(parts))


def _credentials(parts: urllib.parse.SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    user = urllib.parse.unquote(parts.username)
    password = urllib.parse.unquote(parts.password or "")
    token = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    return {"Proxy-Authorization": f"Basic {token}"}


def tls_context() -> ssl.SSLContext:
    """Make the context for https: the system's authorities, or those a variable names
    (:data:`CA_VARIABLES`).

    Reads files: call it off the event loop.

    Raises:
        ConfigError: a variable names a file or folder that cannot be read as certificates.
    """
    name = next((name for name in CA_VARIABLES if os.environ.get(name)), None)
    if name is None:
        return ssl.create_default_context()
    path = os.environ[name]
    try:
        if any(map(os.path.isdir, path.split(os.pathsep))):  # OpenSSL takes several, as PATH does
            return ssl.create_default_context(capath=path)
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{name} names {path!r}, which cannot be read as certificates: {error}",
            hint="it must be a PEM file, or a folder of hashed PEM files (or several folders)",
        ) from error
