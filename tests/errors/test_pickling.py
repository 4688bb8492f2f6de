"""Errors come back whole from worker processes, whatever their classes want to be made."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_async import errors
from prime_async.errors import PrimeError
from prime_async.evals import PushReceipt
from prime_async.traces import errors as traces_errors

CLASSES = sorted(
    {
        kind
        for module in (errors, traces_errors)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, PrimeError)
    },
    key=lambda kind: f"{kind.__module__}.{kind.__name__}",
)


def _with_more_than_words() -> Iterator[PrimeError]:
    yield errors.PartialPushError("2 lost", receipt=PushReceipt("e", "p"), status=503, hint="wait")
    yield errors.ValueEncodingError("no entry", path="samples[7].x", value_type="set")
    yield errors.SpoolError("full", path=Path("/spool"))
    yield errors.CommandTimeoutError("sb_1", "sleep 9", 1.5, stdout="out", elapsed=1.6)
    yield errors.LanJoinTimeoutError("sb_1", "lan_1", "late")
    yield errors.APITimeoutError("late", budget="connect", seconds=10.0, ambiguous=True)


@pytest.mark.parametrize("error", list(_with_more_than_words()), ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("twin_of", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy])
def test_a_pool_gives_back_the_error_of_its_worker(error: PrimeError, twin_of: Any) -> None:
    """Class, words, hint and every attribute; one that cannot be read breaks the whole pool."""
    twin = twin_of(error)
    assert type(twin) is type(error)
    assert (str(twin), twin.args, vars(twin)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_of_the_tree(kind: type[PrimeError]) -> None:
    """Of each there is one way back: none needs its own."""
    new = OSError.__new__ if issubclass(kind, OSError) else kind.__new__
    error: Any = new(kind, "words")
    error.args, error.message, error.hint, error.more = ("words",), "words", "do", [1]
    twin: Any = pickle.loads(pickle.dumps(error))
    assert type(twin) is kind
    assert (str(twin), vars(twin)) == ("words (do)", vars(error))
