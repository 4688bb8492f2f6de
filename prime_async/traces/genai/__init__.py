"""Spans that follow the GenAI conventions of OpenTelemetry, made into traces.

The embedded platform does so with spans that arrive over OTLP, the span exporter with those of its
own process.
"""
