"""The readable table of a benchmark."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_report"]

_FIGURES = {
    "wall_s": "wall s",
    "cpu_s": "CPU s",
    "stall_ms": "worst stall ms",
    "extra_rss_mb": "extra memory MB",
    "record_ms": "ms per record",
    "log_p50_ms": "log p50 ms",
    "log_p99_ms": "log p99 ms",
    "log_max_ms": "log max ms",
    "log_cpu_p99_ms": "log CPU p99 ms",
}


def print_report(result: dict[str, Any], console: Console | None = None) -> None:
    """Print one benchmark: a table per case, its counters below."""
    console = console or Console()
    for name, case in result["cases"].items():
        table = Table("figure", title=f"{result['name']} · {name}", title_justify="left")
        for heading in ("ours", "official", "floor", "official ÷ ours", "ours ÷ floor"):
            table.add_column(heading, justify="right")
        for figure in _order(case):
            table.add_row(_FIGURES.get(figure, figure), *_cells(case, figure))
        console.print(table)
        if case.get("counters"):
            counted = " · ".join(f"{k} {v:,.6g}" for k, v in sorted(case["counters"].items()))
            console.print(f"[dim]{counted}[/dim]\n")


def _order(case: dict[str, Any]) -> list[str]:
    names = {name for role in ("ours", "peer", "floor") for name in case.get(role, {})}
    return sorted(names, key=lambda name: [*_FIGURES, name].index(name))


def _cells(case: dict[str, Any], figure: str) -> list[str]:
    ours, floor = (case.get(role, {}).get(figure) for role in ("ours", "floor"))
    cells = [_number(case.get(role, {}).get(figure)) for role in ("ours", "peer", "floor")]
    cells.append(_times(case.get("ratios", {}).get(figure)))
    cells.append(_times(ours / floor if ours and floor else None))
    return cells


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3g}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}x"
