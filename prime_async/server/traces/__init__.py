"""Traces on the embedded platform: ingest, projection, pages, search, export."""
