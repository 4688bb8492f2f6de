"""The table of ``docs/field-reports.md``: which check is shown by which test.

``python -m tests.field_reports.table`` writes the names of the tests into it again; what is said
about checks that wait for a later step is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE", "Row", "rows", "found_by_report"]

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "field-reports.md"

_ROW = re.compile(r"\| (FR-\d\d) \| (.+?) \| (.+?) \| (.*?) ?\|$")
_TEST = re.compile(r"^ *(?:async )?def (test_FR(\d\d)_\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """One report.

    Attributes:
        report: its number, as in ``FR-07``.
        check: what is asked for, in short.
        state: "shown", what of it waits for which step, or why it is not shown.
        tests: names of the tests that show it.
    """

    report: str
    check: str
    state: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.tests)
        return f"| {self.report} | {self.check} | {self.state} | {names} |"


def rows() -> Iterator[Row]:
    """Read the table."""
    for line in PAGE.read_text("utf-8").splitlines():
        if match := _ROW.match(line):
            report, check, state, names = match.groups()
            yield Row(report, check, state, tuple(re.findall(r"`(\w+)`", names)))


def found_by_report() -> dict[str, list[str]]:
    """Find every test that is named after a report."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, number in _TEST.findall(path.read_text("utf-8")):
            found.setdefault(f"FR-{number}", []).append(name)
    return {report: sorted(names) for report, names in sorted(found.items())}


def written() -> str:
    """The page with the names of the tests as they are now."""
    known = found_by_report()
    page = PAGE.read_text("utf-8")
    for row in rows():
        fresh = Row(row.report, row.check, row.state, tuple(known.get(row.report, ())))
        page = page.replace(f"{row}\n", f"{fresh}\n")
    return page


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
