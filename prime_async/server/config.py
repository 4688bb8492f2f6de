"""What the embedded platform is told at start: its folder, its addresses, its limits."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from prime_async.errors import ConfigError

__all__ = ["Limits", "ServerConfig", "is_loopback"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound of the server, in bytes, seconds or pieces.

    Attributes:
        samples_body_bytes: largest body of a sample push after inflation: 25 MiB, the official
            clients' ceiling, plus 64 KiB for the envelope around the samples.
        json_body_bytes: largest body of any other request.
        bodies_in_memory_bytes: all bodies held at the same time; further ones wait for their turn.
        header_line_bytes, header_field_bytes, headers: of one request head.
        head_seconds: time for a request head to arrive once a connection is open or its first byte
            is there.
        body_idle_seconds, body_seconds: silence within a body, and the whole body.
        write_stall_seconds: how long a client may refuse to read an answer.
        keepalive_seconds: how long an idle connection stays open.
        shutdown_seconds: how long requests in flight may go on after the server was told to stop.
        connections: open connections; further ones are closed at once.
        queued_writes: writes waiting for the writer thread; further ones wait before the queue.
        database_bytes: size the database may reach, None for what the disk holds.
        page_items: largest ``limit`` of a page.
        idempotency_seconds: how long an ``Idempotency-Key`` is remembered (7 days).
        sandboxes: sandboxes that have not ended; further ones are refused.
        sandbox_starts: sandboxes that are started at the same time; further ones wait.
        sandbox_commands: commands that run in one sandbox.
        gateway_token_seconds: how long a token of the gateway is good.
        read_file_bytes: largest window of a file in one JSON answer.
        exec_output_bytes: what a REST exec answers of each output, at most; the rest is counted.
        keep_alive_seconds: silence in a stream of events before a sign of life.
        checkpoints, checkpoint_bytes: checkpoints of this platform, and what they take together.
        volumes, volume_bytes: volumes of this platform, and what those of one owner take together.
        exposures: exposed ports of this platform.
        ingest_per_second: uploads of traces, exports of spans and records of runs that an account
            may send in a second; None for any number. More is refused, with a ``Retry-After``.
        trace_upload_bytes, trace_line_bytes: of one upload of traces after inflation, and of one
            line of it.
        trace_long_line_bytes: a line beyond is not held while it arrives: it is read from the disk
            when it is whole, by a process of its own.
        trace_readers: such processes at the same time; further lines wait on the disk.
        trace_upload_rows: traces and episodes in one upload.
        trace_uploads: uploads of traces read at the same time; further ones wait.
        trace_upload_seconds: for one of them to arrive.
        trace_search_bytes: what one page of a search reads, at most; the next page goes on.
        sample_object_bytes, sample_object_seconds: of one file of samples of a training run, and
            for it to arrive.
        otlp_body_bytes: largest body of spans after inflation.
        otlp_spans, otlp_trace_bytes: spans kept of one trace, and bytes of them; further ones are
            refused.
    """

    samples_body_bytes: int = 25 * _MIB + 64 * 1024
    json_body_bytes: int = 4 * _MIB
    bodies_in_memory_bytes: int = 160 * _MIB
    header_line_bytes: int = 8190
    header_field_bytes: int = 32 * 1024
    headers: int = 100
    head_seconds: float = 15.0
    body_idle_seconds: float = 30.0
    body_seconds: float = 300.0
    write_stall_seconds: float = 60.0
    keepalive_seconds: float = 75.0
    shutdown_seconds: float = 10.0
    connections: int = 1024
    queued_writes: int = 1024
    database_bytes: int | None = None
    page_items: int = 1000
    idempotency_seconds: float = 7 * 24 * 3600.0
    sandboxes: int = 1000
    sandbox_starts: int = 16
    sandbox_commands: int = 1024
    gateway_token_seconds: float = 1800.0
    read_file_bytes: int = 32 * _MIB
    exec_output_bytes: int = 16 * _MIB
    keep_alive_seconds: float = 15.0
    checkpoints: int = 1000
    checkpoint_bytes: int = 50 * 1024 * _MIB
    volumes: int = 1000
    volume_bytes: int = 50 * 1024 * _MIB
    exposures: int = 256
    ingest_per_second: float | None = None
    trace_upload_bytes: int = 256 * _MIB
    trace_line_bytes: int = 64 * _MIB
    trace_long_line_bytes: int = 2 * _MIB
    trace_readers: int = 2
    trace_upload_rows: int = 1_000_000
    trace_uploads: int = 16
    trace_upload_seconds: float = 3600.0
    trace_search_bytes: int = 64 * _MIB
    sample_object_bytes: int = 512 * _MIB
    sample_object_seconds: float = 3600.0
    otlp_body_bytes: int = 16 * _MIB
    otlp_spans: int = 10_000
    otlp_trace_bytes: int = 24 * _MIB


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the embedded platform lives and listens.

    Attributes:
        data_dir: folder of the database and of the generated key; made with mode 0700.
        host: address of the TCP listener; loopback unless ``allow_remote`` is set.
        port: TCP port; 0 takes a free one.
        unix_socket: path of the unix socket (mode 0600), or None for none.
        api_key: the key of the first account; None takes the one in ``data_dir``, made at the first
            start.
        allowed_hosts: names besides loopback ones that a ``Host`` header may carry.
        allow_remote: consent to listen on an address other machines can reach; needs an explicit
            ``api_key``.
        traces_off_for: slugs of accounts that the traces service is switched off for.
        sandbox_runtime: what runs sandboxes: ``bubblewrap``, or ``process``, which isolates
            nothing.
        sandbox_network: what a sandbox without lists may reach: ``open`` or ``none``.
        limits: every bound of the server.
    """

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    unix_socket: Path | None = None
    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    allow_remote: bool = False
    traces_off_for: tuple[str, ...] = ()
    sandbox_runtime: str = "bubblewrap"
    sandbox_network: Literal["open", "none"] = "open"
    limits: Limits = field(default_factory=Limits)

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.data_dir / "platform.sqlite3"

    @property
    def lock_file(self) -> Path:
        """Held as long as a platform uses the folder."""
        return self.data_dir / "platform.lock"

    @property
    def key_file(self) -> Path:
        """Where the generated key is kept (mode 0600)."""
        return self.data_dir / "api_key"

    @property
    def gateway_key_file(self) -> Path:
        """What tokens of the gateway are signed with (mode 0600)."""
        return self.data_dir / "gateway_key"

    @property
    def traces_dir(self) -> Path:
        """The lines of uploaded traces."""
        return self.data_dir / "traces"

    @property
    def run_samples_dir(self) -> Path:
        """Files of samples of training runs."""
        return self.data_dir / "run-samples"

    @property
    def sandboxes_dir(self) -> Path:
        """The folders of sandboxes."""
        return self.data_dir / "sandboxes"

    @property
    def checkpoints_dir(self) -> Path:
        """The archives of checkpoints (mode 0700): out of the reach of sandboxes."""
        return self.data_dir / "checkpoints"

    @property
    def volumes_dir(self) -> Path:
        """The folders of volumes; below that of sandboxes, which mount them."""
        return self.sandboxes_dir / ".volumes"

    @property
    def sandbox_logs_dir(self) -> Path:
        """What the start commands of sandboxes write."""
        return self.data_dir / "sandbox-logs"

    @property
    def sandboxes_file(self) -> Path:
        """The user's choices for sandboxes: network, runtime, images."""
        return self.data_dir / "sandboxes.toml"

    def check(self) -> None:
        """Refuse what is unsafe before anything is opened.

        Raises:
            ConfigError: the host is not a loopback address and consent or key is missing, or a
                value is out of range.
        """
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port {self.port} is outside 0..65535")
        if self.api_key is not None and not _is_usable_key(self.api_key):
            raise ConfigError(
                "the API key must be 16 to 512 printable ASCII characters without spaces"
            )
        pace = self.limits.ingest_per_second
        if pace is not None and not pace > 0:
            raise ConfigError(f"ingest_per_second is {pace:g}; it must be above 0")
        if is_loopback(self.host):
            return
        if not self.allow_remote:
            raise ConfigError(
                f"refusing to listen on {self.host}: other machines could reach this platform",
                hint="use 127.0.0.1, or consent with allow_remote and an explicit API key",
            )
        if self.api_key is None:
            raise ConfigError(
                f"refusing to listen on {self.host} with a generated key",
                hint="pass an explicit API key",
            )


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be reached from this machine."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_usable_key(key: str) -> bool:
    return 16 <= len(key) <= 512 and key.isascii() and key.isprintable() and " " not in key
