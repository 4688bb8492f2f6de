"""Each public async name has its sync twin: seen from outside, whatever the generator thinks."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import prime_async
import prime_sync
from prime_sync._generate import PLAN

PACKAGES = [("prime_async", "prime_sync")] + [
    (unit.package, unit.target) for unit in PLAN.units if unit.package is not None
]
RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "aclose": "close",
}


def async_classes() -> Iterator[type]:
    """Every public async class."""
    for package, _ in PACKAGES:
        for name in importlib.import_module(package).__all__:
            value = getattr(importlib.import_module(package), name)
            wrapped = name.startswith("Async") and name not in PLAN.async_only
            if inspect.isclass(value) and wrapped:
                yield value


def members() -> Iterator[tuple[type, str]]:
    """Every public member of every public async class, inherited ones too."""
    for owner in dict.fromkeys(async_classes()):
        for name in dir(owner):
            listed = f"{owner.__name__}.{name}" in PLAN.async_only
            if (not name.startswith("_") or name in RENAMED) and not listed:
                yield owner, name


def twin_of(owner: type) -> type:
    """The sync class of an async one."""
    twin: type = getattr(prime_sync, owner.__name__.removeprefix("Async"))
    return twin


@pytest.mark.parametrize(("async_package", "sync_package"), PACKAGES)
def test_packages_export_the_same_names(async_package: str, sync_package: str) -> None:
    """Less the prefix, and but for what is listed as async only or as an extra."""
    source, target = (importlib.import_module(name) for name in (async_package, sync_package))
    expected = {name.removeprefix("Async") for name in source.__all__} - set(PLAN.async_only)
    extras = set(PLAN.extras) if target is prime_sync else set()
    assert set(target.__all__) == expected | extras
    assert target.__all__ == sorted(target.__all__)
    assert set(target.__all__) <= set(dir(target))


def test_data_and_errors_are_the_same_objects() -> None:
    """An ``except`` clause written for one face works with the other."""
    for name in prime_async.__all__:
        if not name.startswith("Async"):
            assert getattr(prime_sync, name) is getattr(prime_async, name)


@pytest.mark.parametrize(
    "owner", list(dict.fromkeys(async_classes())), ids=lambda owner: owner.__name__
)
def test_constructors_take_the_same(owner: type) -> None:
    """Names, kinds, order and defaults."""
    assert shape(twin_of(owner)) == shape(owner)


@pytest.mark.parametrize(("owner", "name"), list(members()))
def test_members_take_the_same_and_say_the_same(owner: type, name: str) -> None:
    """Same parameters, same first line of the docstring; a property stays a property."""
    ours, theirs = (
        inspect.getattr_static(twin_of(owner), RENAMED.get(name, name)),
        inspect.getattr_static(owner, name),
    )
    assert isinstance(ours, property) == isinstance(theirs, property)
    assert first_line(ours) == first_line(theirs).replace("Async", "")
    if not isinstance(theirs, property):
        assert shape(ours) == shape(theirs)
        assert not inspect.iscoroutinefunction(ours)


def test_what_is_listed_as_async_only_has_a_reason() -> None:
    """And really is not there."""
    for entry, reason in PLAN.async_only.items():
        assert len(reason) > 20
        owner, _, name = entry.partition(".")
        sync = getattr(prime_sync, owner.removeprefix("Async"), None)
        assert not hasattr(sync, name) if name else sync is None


def test_the_sync_package_wraps_nothing_at_run_time() -> None:
    """Every public method is written out in a file: no ``__getattr__``, no wrapper objects."""
    for owner in dict.fromkeys(async_classes()):
        twin = twin_of(owner)
        assert not hasattr(twin, "__getattr__")
        for name, value in vars(twin).items():
            if inspect.isfunction(value):
                assert value.__code__.co_filename == inspect.getfile(twin), name


def shape(value: Any) -> list[tuple[str, Any, Any]]:
    """The parameters, without their types, which mypy compares."""
    parameters = inspect.signature(value).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


def first_line(value: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(value) or "").partition("\n")[0]
