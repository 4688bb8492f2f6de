"""Proxies and certificate authorities, as the environment names them."""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prime_async.errors import ConfigError
from prime_async.transport.network import CA_VARIABLES, proxy_for, tls_context
from tests.certs import Authority

API = "https://api.platform.test"


@pytest.mark.parametrize(
    ("variables", "url", "expected"),
    [
        ({}, API, None),
        ({"HTTPS_PROXY": "http://p:3128"}, API, "http://p:3128"),
        ({"https_proxy": "http://p:3128"}, API, "http://p:3128"),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}, API, "http://low:1"),
        ({"HTTP_PROXY": "http://p:3128"}, API, None),
        ({"HTTP_PROXY": "http://p:3128"}, "http://api.platform.test", "http://p:3128"),
        ({"ALL_PROXY": "http://p:3128"}, API, "http://p:3128"),
        ({"ALL_PROXY": "http://a:1", "HTTPS_PROXY": "http://s:1"}, API, "http://s:1"),
        ({"HTTPS_PROXY": "p:3128"}, API, "http://p:3128"),
        ({"HTTPS_PROXY": "https://p"}, API, "https://p"),
        ({"HTTPS_PROXY": "http://[::1]:3128"}, API, "http://[::1]:3128"),
        ({"HTTPS_PROXY": ""}, API, None),
    ],
)
def test_which_proxy(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str, expected: str | None
) -> None:
    """By scheme, lower case first, the general one last; a bare host is an http proxy."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    proxy = proxy_for(url)
    assert (proxy and proxy.url) == expected
    assert proxy is None or proxy.headers == {}


@pytest.mark.parametrize(
    ("no_proxy", "goes_direct"),
    [
        ("*", True),
        ("platform.test", True),
        (".platform.test", True),
        ("api.platform.test", True),
        ("other.test, api.platform.test", True),
        ("API.PLATFORM.TEST", True),
        ("*.platform.test", True),
        ("form.test", False),
        ("*.form.test", False),
        ("10.0.0.0/8", False),
        ("other.test", False),
        ("", False),
    ],
)
def test_no_proxy(monkeypatch: pytest.MonkeyPatch, no_proxy: str, goes_direct: bool) -> None:
    """Hosts and domains that are listed are reached directly."""
    monkeypatch.setenv("HTTPS_PROXY", "http://p:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (proxy_for(f"{API}:8443/x") is None) is goes_direct


@pytest.mark.parametrize(
    ("no_proxy", "goes_direct"),
    [
        ("10.1.2.3,fe80::1", (True, True)),
        ("other.test, 10.0.0.0/8, fe80::/10", (True, True)),
        ("[fe80::1]", (False, True)),
        ("10.1.2.4, 10.2.0.0/16, fe80::2, 300.0.0.0/8", (False, False)),
    ],
)
def test_no_proxy_for_addresses(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, goes_direct: tuple[bool, bool]
) -> None:
    """Addresses and networks are listed as clusters list them."""
    monkeypatch.setenv("HTTPS_PROXY", "http://p:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    hosts = ("https://10.1.2.3:8443", "https://[fe80::1]:8443")
    assert tuple(proxy_for(host) is None for host in hosts) == goes_direct


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=12)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(user=TEXT, password=TEXT)
def test_credentials_of_any_characters(
    monkeypatch: pytest.MonkeyPatch, user: str, password: str
) -> None:
    """Percent-encoded names and passwords arrive as they are, and are in no address and no repr."""
    from urllib.parse import quote

    monkeypatch.setenv("HTTPS_PROXY", f"http://{quote(user, '')}:{quote(password, '')}@p:3128")
    proxy = proxy_for(API)
    assert proxy is not None
    assert proxy.url == "http://p:3128"
    kind, _, token = proxy.headers["Proxy-Authorization"].partition(" ")
    assert kind == "Basic"
    assert base64.b64decode(token).decode() == f"{user}:{password}"
    assert token not in repr(proxy)


@pytest.mark.parametrize(
    "address",
    ["socks5://p:1080", "http://", "http://p:port", "http://p:99999", "ftp://p", "http://[::1"],
)
def test_a_broken_proxy_is_an_error_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """What cannot be used is said with the variable's name, not with its content."""
    monkeypatch.setenv("HTTPS_PROXY", address.replace("//", "//user:CANARY@"))
    with pytest.raises(ConfigError, match="HTTPS_PROXY") as caught:
        proxy_for(API)
    assert "CANARY" not in str(caught.value)
    assert "CANARY" not in repr(caught.value.__cause__)


def test_the_systems_authorities_are_the_default() -> None:
    """With no variable set, what the system trusts is trusted, and names are checked."""
    context = tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


@pytest.mark.parametrize("name", CA_VARIABLES)
def test_each_variable_names_the_authorities(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: Authority, name: str
) -> None:
    """A file in any of the variables is the whole of what is trusted."""
    monkeypatch.setenv(name, str(authority.write_pem(tmp_path / "ca.pem")))
    assert len(tls_context().get_ca_certs()) == 1


def test_the_first_variable_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: Authority
) -> None:
    """Ours before those of others; one that is empty is not set."""
    good = str(authority.write_pem(tmp_path / "ca.pem"))
    monkeypatch.setenv(CA_VARIABLES[-1], str(tmp_path / "missing"))
    monkeypatch.setenv(CA_VARIABLES[1], good)
    monkeypatch.setenv(CA_VARIABLES[0], "")
    assert len(tls_context().get_ca_certs()) == 1


def test_several_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, authority: Authority
) -> None:
    """``SSL_CERT_DIR`` is a list, as ``PATH`` is; a folder that is missing does not matter."""
    folder = authority.write_folder(tmp_path / "second")
    monkeypatch.setenv("SSL_CERT_DIR", os.pathsep.join([str(tmp_path / "first"), str(folder)]))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = tls_context().wrap_bio(back, there, server_hostname="localhost")
    server = authority.server_context().wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.getpeercert()


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_broken_authority_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    """A file that is missing or holds no certificate is an error before any connection."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("PRIME_CA_BUNDLE", str(path))
    with pytest.raises(ConfigError, match="PRIME_CA_BUNDLE") as caught:
        tls_context()
    assert str(path) in str(caught.value)
