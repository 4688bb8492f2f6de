"""Tables: aligned text for pipes and ``--plain``, fitted to the width on a terminal.

Piped, a row is one line and nothing is cut, whatever the width. On a terminal the table fits the
width: long texts are shortened first, then columns are left out in a stated order and named; ids
are never cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_async_cli.text import cell_width, harmless, pad, paint, shorten

__all__ = ["Column", "cell", "fitted_table", "fold_shared", "plain_table"]

_GAP = 2
_LEAST = 10


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        title: the heading, in capitals.
        value: the key to read, or a function of the row.
        whole: never shortened and never left out (ids).
        drop: the column with the highest number is left out first on a narrow terminal.
        right: aligned to the right (numbers).
        uncut: never shortened: left out instead where there is no room (times).
        fold: on a terminal, a value that all rows have in common is said once below the table.
    """

    title: str
    value: str | Callable[[Mapping[str, Any]], Any]
    whole: bool = False
    drop: int = 0
    right: bool = False
    uncut: bool = False
    fold: bool = False

    def text(self, row: Mapping[str, Any]) -> str:
        """Return what stands in this column for a row."""
        return cell(self.value(row) if callable(self.value) else row.get(self.value))


def cell(value: Any) -> str:
    """Return a value as one harmless line: ``-`` for nothing, yes and no, lists with commas."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, Mapping):
        from prime_async_cli.documents import line

        return harmless(line(value).rstrip("\n"))
    if isinstance(value, Sequence):
        return ", ".join(cell(item) for item in value) or "-"
    return harmless(str(value))


def plain_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> str:
    """Return the table as text: a heading, then one line per row, nothing cut."""
    lines = [[column.title for column in columns]]
    lines += [[column.text(row) for column in columns] for row in rows]
    widths = [max(cell_width(line[place]) for line in lines) for place in range(len(columns))]
    return "".join(_line(line, columns, widths) for line in lines)


def fold_shared(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]
) -> tuple[list[Column], str]:
    """Take out the columns in which all rows say the same, where that may be; return the others,
    and one line with what those say.
    """
    shown: list[Column] = []
    said: list[str] = []
    for column in columns:
        values = {column.text(row) for row in rows} if column.fold and len(rows) > 1 else set()
        if len(values) == 1:
            said.append(f"{column.title.lower()}: {values.pop()}")
        else:
            shown.append(column)
    return shown, "  ".join(said)


def fitted_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], width: int, *, colour: bool
) -> tuple[str, list[str]]:
    """Return the table for a terminal, and the titles of the columns that had no room."""
    texts = [[column.text(row) for column in columns] for row in rows]
    places, widths = _fit(texts, columns, width)
    shown = [columns[place] for place in places]
    room = [widths[place] for place in places]
    heading = _line([column.title for column in shown], shown, room)
    rule = (" " * _GAP).join("-" * each for each in room) + "\n"
    body = "".join(
        _line([shorten(line[place], widths[place]) for place in places], shown, room)
        for line in texts
    )
    left_out = [column.title for place, column in enumerate(columns) if place not in places]
    return paint(heading, "bold", colour) + paint(rule, "dim", colour) + body, left_out


def _line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    cells = [
        pad(text, width, right=column.right)
        for text, column, width in zip(texts, columns, widths, strict=True)
    ]
    return (" " * _GAP).join(cells).rstrip() + "\n"


def _fit(
    texts: Sequence[Sequence[str]], columns: Sequence[Column], width: int
) -> tuple[list[int], dict[int, int]]:
    """Choose the columns and their widths: shorten the widest, then leave out by rank."""
    natural = {
        place: max([cell_width(column.title), *(cell_width(line[place]) for line in texts)])
        for place, column in enumerate(columns)
    }
    shown = list(natural)
    while True:
        widths = _shrink({place: natural[place] for place in shown}, columns, width)
        droppable = [place for place in shown if not columns[place].whole]
        if _total(widths) <= width or not droppable:
            return shown, widths
        shown.remove(max(droppable, key=lambda place: (columns[place].drop, place)))


def _shrink(widths: dict[int, int], columns: Sequence[Column], width: int) -> dict[int, int]:
    while _total(widths) > width:
        least = {place: max(_LEAST, cell_width(columns[place].title)) for place in widths}
        wide = [p for p in widths if not _is_kept_whole(columns[p]) and widths[p] > least[p]]
        if not wide:
            break
        widest = max(wide, key=widths.__getitem__)
        widths[widest] = max(least[widest], widths[widest] - (_total(widths) - width))
    return widths


def _is_kept_whole(column: Column) -> bool:
    return column.whole or column.uncut


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + _GAP * max(0, len(widths) - 1)
