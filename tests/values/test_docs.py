"""docs/values.md says what the code does: every row of its tables is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from prime_async import values
from prime_async.errors import ValueEncodingError

PAGE = Path(__file__).parents[2] / "docs" / "values.md"
_ROW = re.compile(r"^\| `(?P<python>.+?)` \| (?:`(?P<json>.*?)`|(?P<refused>refused)) \| ", re.M)
_NAMES = re.compile(r"```python\n(?P<code>.*?)```", re.S)

TEXT = PAGE.read_text("utf-8")
ROWS = [match.groupdict() for match in _ROW.finditer(TEXT)]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the page defines for its rows."""
    found = _NAMES.search(TEXT)
    assert found is not None
    # A name of its own: attrs, msgspec and dataclasses look their annotations up in the module.
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(found["code"], str(PAGE), "exec"), space)
    return space


def test_every_row_is_read() -> None:
    """No row has another form, which would leave it unchecked."""
    table_lines = [line for line in TEXT.splitlines() if line.startswith("| ")]
    heads = [line for line in table_lines if line.startswith("| Python ")]
    assert len(ROWS) == len(table_lines) - len(heads)
    assert len(ROWS) > 40


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["python"])
def test_FR33_row(row: dict[str, str | None], names: dict[str, Any]) -> None:
    """The expression is written as the row says, or refused."""
    assert row["python"] is not None
    value = eval(row["python"], names)
    if row["json"] is None:
        with pytest.raises(ValueEncodingError):
            values.encode(value)
    else:
        assert values.encode(value).decode() == row["json"]


@pytest.mark.parametrize("row", [row for row in ROWS if row["json"]], ids=lambda row: row["python"])
def test_row_in_a_record_that_must_be_mended(
    row: dict[str, str | None], names: dict[str, Any]
) -> None:
    """The slow way, taken when something beside it has to be mended, writes the same."""
    assert row["python"] is not None
    value = eval(row["python"], names)
    mended = values.encode({"x": value, 0: "a key that is not text"}).decode()
    assert mended == f'{{"x":{row["json"]},"0":"a key that is not text"}}'
