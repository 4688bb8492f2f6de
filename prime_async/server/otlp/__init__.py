"""Spans of OpenTelemetry, taken in over OTLP/HTTP and made into traces."""
