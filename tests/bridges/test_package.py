"""The package itself: nothing foreign is imported before it is used; what is missing is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import prime_async.bridges
import prime_sync.bridges
from prime_async.bridges import RunCallback, RunSpanExporter
from prime_async.runs import ConfigurationError
from tests.bridges.reading import Place

LAZY = """
import sys
import prime_async.bridges, prime_sync
assert "prime_async.runs" not in sys.modules
from prime_async.bridges import *
from prime_sync.bridges import *
foreign = {"opentelemetry", "transformers", "verifiers", "pyarrow"}
assert not foreign & set(sys.modules), foreign & set(sys.modules)
"""


def test_importing_them_needs_nothing() -> None:
    """Neither the package, nor its names on both faces."""
    subprocess.run([sys.executable, "-W", "error", "-c", LAZY], check=True)


def test_both_faces_have_the_same_names() -> None:
    """All but one are the very same, as they take either kind of run; one more is awaited."""
    shared = [name for name in prime_async.bridges.__all__ if name != "AsyncRunMonitor"]
    assert prime_sync.bridges.__all__ == shared
    differ = {
        name
        for name in shared
        if getattr(prime_async.bridges, name) is not getattr(prime_sync.bridges, name)
    }
    assert differ == {"stream_results"}


@pytest.mark.parametrize(
    ("make", "missing", "extra"),
    [
        (RunSpanExporter, "opentelemetry.sdk.trace.export", "otel"),
        (RunCallback, "transformers", "transformers"),
    ],
)
def test_what_is_missing_is_named(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Any], Any],
    missing: str,
    extra: str,
) -> None:
    """The error says which extra brings it."""
    monkeypatch.setitem(sys.modules, missing, None)
    with (
        place.open(mode="disabled") as run,
        pytest.raises(ConfigurationError, match="this bridge needs") as told,
    ):
        make(run)
    assert told.value.hint == f"pip install 'prime-async[{extra}]'"
