"""What a command says: data on standard output, everything else on standard error.

With ``--output json`` standard output holds one JSON document and standard error nothing but, at
its end, one JSON object per warning and one for the error. Otherwise data are tables and key-value
lists.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prime_async_cli import streams

if TYPE_CHECKING:
    from prime_async_cli.tables import Column

__all__ = ["Output"]


class Output:
    """Where a command puts its results.

    Attributes:
        json: data are written as JSON.
        plain: tables at their natural width and no colours, on a terminal too.
    """

    def __init__(self) -> None:
        self.json = False
        self.plain = False

    @property
    def drawn(self) -> bool:
        """Tables are fitted to the screen: a person looks, and did not ask for plain text."""
        return (
            not self.plain and streams.is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
        )

    @property
    def coloured(self) -> bool:
        """Colours on standard output."""
        return not self.plain and streams.can_colour(sys.stdout)

    def document(self, value: Any) -> None:
        """Write the one JSON document of this command."""
        from prime_async_cli.documents import document

        streams.write(document(value))

    def json_line(self, value: Any) -> None:
        """Write one line of a JSON Lines stream."""
        from prime_async_cli.documents import line

        streams.write(line(value))

    def text(self, text: str) -> None:
        """Write text of ours to standard output, as it is."""
        streams.write(text + "\n")

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
        """Write a table; columns that have no room on the screen are named on standard error."""
        from prime_async_cli.tables import fitted_table, fold_shared, plain_table

        if not self.drawn:
            streams.write(plain_table(rows, columns))
            return
        width = streams.screen_width()
        columns, shared = fold_shared(rows, columns)
        table, left_out = fitted_table(rows, columns, width, colour=self.coloured)
        streams.write(table + (f"all: {shared}\n" if shared else ""))
        if left_out:
            self.note(f"no room for {', '.join(left_out)}: widen the window, or use --plain")

    def fields(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Write names and values, one below the other."""
        from prime_async_cli.tables import cell
        from prime_async_cli.text import pad, paint

        shown = [(name, cell(value)) for name, value in pairs]
        width = max((len(name) for name, _ in shown), default=0) + 1
        for name, value in shown:
            label = paint(pad(name + ":", width), "bold", self.coloured)
            streams.write(f"{label} {value}\n")

    def note(self, text: str) -> None:
        """Tell the person something beside the data; silent in JSON mode."""
        from prime_async_cli.text import harmless

        if not self.json:
            streams.write(harmless(text, lines=True) + "\n", error=True)

    def warn(self, text: str) -> None:
        """Say what should be known although the command goes on."""
        from prime_async_cli.text import harmless, paint

        if self.json:
            from prime_async_cli.documents import line

            streams.write(line({"warning": {"message": text}}), error=True)
            return
        colour = not self.plain and streams.can_colour(sys.stderr)
        label = paint("warning:", "yellow", colour)
        streams.write(f"{label} {harmless(text, lines=True)}\n", error=True)
