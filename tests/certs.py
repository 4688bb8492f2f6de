"""A certificate authority for tests: servers that are trusted, distrusted or named wrong."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
import trustme

__all__ = ["Authority"]


class Authority:
    """A private certificate authority."""

    def __init__(self) -> None:
        self._ca = trustme.CA()

    def server_context(self, *names: str) -> ssl.SSLContext:
        """Return a server context for these names and addresses (default: the loopback ones)."""
        certificate = self._ca.issue_cert(*(names or ("localhost", "127.0.0.1")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        return context

    def write_pem(self, path: Path) -> Path:
        """Write the authority's certificate where ``SSL_CERT_FILE`` can name it."""
        self._ca.cert_pem.write_to_path(str(path))
        return path

    def write_folder(self, path: Path) -> Path:
        """Write a folder as ``SSL_CERT_DIR`` takes it: files named by the hash of the subject."""
        openssl = shutil.which("openssl")
        if openssl is None:
            # The hash is OpenSSL's own: deriving it here would be a copy of its rules.
            pytest.skip("needs the openssl command to name the files of a certificate folder")
        path.mkdir(parents=True, exist_ok=True)
        pem = self._ca.cert_pem.bytes()
        done = subprocess.run(
            [openssl, "x509", "-noout", "-hash"], input=pem, capture_output=True, check=True
        )
        (path / f"{done.stdout.decode().strip()}.0").write_bytes(pem)
        return path
