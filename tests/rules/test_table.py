"""The table of rules is complete: every rule is shown on every face, or it is said why not."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from prime_async import bridges
from tests.rules.coverage import PACKAGES, known_classes, missing, surplus
from tests.rules.reasons import ELSEWHERE, NOT_TOUCHED
from tests.rules.table import FACES, RULES, TABLE, Scenario

_FILES = sorted(path.stem for path in Path(__file__).parent.glob("test_rule_*.py"))


@pytest.fixture(scope="module")
def table() -> list[Scenario]:
    """Every row, whichever of the files this process has collected."""
    for name in _FILES:
        importlib.import_module(f"tests.rules.{name}")
    return list(TABLE.values())


def test_each_rule_has_its_file() -> None:
    """Ten rules, ten files, by number."""
    assert [int(name.split("_")[2]) for name in _FILES] == list(RULES)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_on_every_face(table: list[Scenario], rule: int, face: str) -> None:
    """There is a scenario, or each scenario of the rule has its reason to leave the face out."""
    rows = [row for row in table if row.rule == rule]
    assert rows
    shown = [row for row in rows if face in row.faces]
    assert shown or all(len(row.left_out[face]) > 10 for row in rows)
    # What a face is left out of altogether is an exception, to be wanted and not to happen.
    assert bool(shown) != ((rule, face) in {(6, "command")})


def test_a_scenario_runs_somewhere(table: list[Scenario]) -> None:
    """A row without a face would be no row."""
    assert [row.name for row in table if not row.faces] == []


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_on_everything_public(table: list[Scenario], rule: int) -> None:
    """A new call, function or command has a row in each rule, or a line that says why not."""
    assert sorted(missing(table, rule)) == []
    assert sorted(surplus(rule)) == []
    assert all(len(reason) > 10 for reason in NOT_TOUCHED.get(rule, {}))


def test_every_public_class_is_looked_at() -> None:
    """Those that clients and handles are made of are looked at with them."""
    # What bridges make of the calls of a run is shown in tests/bridges.
    for package in (one for one in PACKAGES if one is not bridges):
        for name in package.__all__:
            value = getattr(package, name)
            if isinstance(value, type) and name.startswith("Async"):
                assert value in known_classes(), f"{name} has no rows"


def test_what_is_said_of_other_tests_is_true() -> None:
    """The tests that are named are there."""
    for named in (name for names in ELSEWHERE.values() for name in names):
        path, _, test = named.partition("::")
        text = (Path(__file__).parents[2] / path).read_text("utf-8")
        assert f"def {test}(" in text, named
