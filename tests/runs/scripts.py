"""Scripts that log to a run from processes of their own, and what arrived of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from prime_sync import APIClient
from prime_sync.runs import sync_runs
from tests.platform import KEY, ThreadedPlatform

__all__ = ["expected", "run_script", "start", "sync", "traces_of"]

_SCRIPT = """
import asyncio, multiprocessing, os, signal, sys, threading, time
from prime_sync.runs import init

def options(**more):
    return dict(base_url=os.environ["URL"], api_key=os.environ["KEY"], environments=["math"],
                model="m", spool_dir=os.environ["SPOOL"], **more)

def trace(name, **more):
    return {"id": name, "timing": {"start": time.time()}, **more}

"""


def start(platform: ThreadedPlatform, spool: Path, body: str) -> subprocess.Popen[str]:
    """Start a script."""
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT + body],
        env={**os.environ, "URL": platform.url, "KEY": platform.key, "SPOOL": str(spool)},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_script(platform: ThreadedPlatform, spool: Path, body: str) -> tuple[int, str, str]:
    """Run a script to its end: code, output, complaints."""
    process = start(platform, spool, body)
    out, err = process.communicate(timeout=60)
    return process.returncode, out.strip(), err


def traces_of(platform: ThreadedPlatform, run_id: str) -> list[str]:
    """The traces that the platform has of a run, one page of a hundred after the other."""
    found: list[str] = []
    cursor = None
    with APIClient(KEY, base_url=platform.url) as api:
        while True:
            page = api.get("/traces", {"run_id": run_id, "limit": 100, "cursor": cursor})
            found += [item["trace_id"] for item in page["items"]]
            cursor = page.get("next_cursor")
            if cursor is None:
                return sorted(found)


def sync(platform: ThreadedPlatform, spool: Path) -> list[str | None]:
    """Deliver what is on disk; say what is wrong with each entry."""
    with APIClient(KEY, base_url=platform.url) as api:
        return [one.problem for one in sync_runs(api, spool_dir=spool)]


def expected(run_id: str, parts: dict[str, int]) -> list[str]:
    """The ids that the scripts give."""
    return sorted(f"{run_id}-{part}{n}" for part, count in parts.items() for n in range(count))
