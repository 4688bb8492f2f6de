"""Asyncio-first SDK (see docs/architecture.md)."""
