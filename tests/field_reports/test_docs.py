"""The published table of field reports is true."""

from __future__ import annotations

import re

import pytest

from tests.field_reports.table import Row, found_by_report, rows

ROWS = list(rows())


def test_every_report_has_its_row() -> None:
    """60 of them, in their order."""
    assert [row.report for row in ROWS] == [f"FR-{number:02}" for number in range(1, 61)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.report)
def test_the_row_names_the_tests_there_are(row: Row) -> None:
    """All of them and no other; ``python -m tests.field_reports.table`` writes them again."""
    assert list(row.tests) == found_by_report().get(row.report, [])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.report)
def test_what_is_not_shown_says_why(row: Row) -> None:
    """ "shown" has a test; everything else says which step brings it, or why none does."""
    if row.state.startswith("shown"):
        assert row.tests
        return
    steps = [int(number) for number in re.findall(r"step (\d+)", row.state)]
    assert steps or row.state.startswith("not shown: ")
    assert all(3 <= step <= 12 for step in steps)


def test_no_test_is_named_after_a_report_that_does_not_exist() -> None:
    """A wrong number would be a check that nobody finds."""
    assert set(found_by_report()) <= {row.report for row in ROWS}
