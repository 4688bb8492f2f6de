"""Which tasks of the managed loop are the bridge's own."""

from __future__ import annotations

__all__ = ["ROOT"]

ROOT = "prime_sync"
"""Name of the tasks that the bridge itself starts: at exit they end first, with their children."""
