"""Counters for ``/metrics``, in a registry per server so that two in one process do not mix."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from prime_async.server.budget import ByteBudget
from prime_async.server.store.writer import Writer

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class Metrics:
    """What the server counts. Labels hold route templates, never ids."""

    def __init__(self, writer: Writer, bodies: ByteBudget) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._counter(
            "requests", "Answered requests", ("method", "route", "status")
        )
        self.seconds = Histogram(
            "prime_async_request_seconds",
            "Time from request head to the end of the answer",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.samples = self._counter("samples_stored", "Samples stored")
        self.duplicates = self._counter("samples_duplicate", "Samples sent again and left alone")
        self.traces = self._counter("traces_stored", "Traces and episodes stored")
        self.trace_bytes = self._counter("trace_bytes_stored", "Bytes of their lines")
        self.connections = self._gauge("connections", "Open connections")
        self.refused_connections = self._counter(
            "connections_refused", "Connections over the limit"
        )
        self.slow_clients = self._counter(
            "slow_clients", "Connections ended by a limit", ("limit",)
        )
        self.live_sandboxes = self._gauge("sandboxes_live", "Sandboxes that run")
        self.sandboxes = self._counter("sandboxes_created", "Sandboxes asked for")
        self.ended_sandboxes = self._counter("sandboxes_ended", "Sandboxes ended", ("reason",))
        self.commands = self._counter("sandbox_commands", "Commands started in sandboxes", ("way",))
        self.uploaded = self._counter("sandbox_upload_bytes", "Bytes of files sent to sandboxes")
        self.downloaded = self._counter("sandbox_download_bytes", "Bytes of files read from them")
        self._gauge("writes_waiting", "Writes not committed yet").set_function(
            lambda: writer.waiting
        )
        self._gauge("commits", "Transactions committed").set_function(lambda: writer.commits)
        self._gauge("body_bytes", "Bytes of bodies in memory").set_function(lambda: bodies.used)

    def text(self) -> bytes:
        """The page in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"prime_async_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"prime_async_{name}", text, registry=self._registry)
