"""``python -m benchmarks [NAME[:CASE]...] [--json]``: run benchmarks, all of them by default."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import print_report

_EQUIPMENT = {
    "__init__",
    "__main__",
    "harness",
    "jobs",
    "jobserver",
    "platform",
    "report",
    "rollouts",
    "samples",
    "server",
    "uploads",
}


def names() -> list[str]:
    """List the benchmarks: the modules of this folder that are not its equipment."""
    stems = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(stem for stem in stems if stem not in _EQUIPMENT)


def cases(name: str) -> tuple[str, ...]:
    """List the cases of a benchmark that can be run alone."""
    found: tuple[str, ...] = getattr(importlib.import_module(f"benchmarks.{name}"), "CASES", ())
    return found


def run(name: str) -> dict[str, Any]:
    """Run one benchmark, or with ``name:case`` one of its cases."""
    name, _, only = name.partition(":")
    module = importlib.import_module(f"benchmarks.{name}")
    result: dict[str, Any] = module.run(only) if only else module.run()
    return result


def main() -> None:
    """Parse the command line and run what it names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=" | ".join(names()))
    parser.add_argument("--json", action="store_true", help="one JSON object per line on stdout")
    arguments = parser.parse_args()
    for asked in arguments.name:
        name, _, only = asked.partition(":")
        if name not in names():
            parser.error(f"no benchmark {name}; there are {', '.join(names())}")
        if only and only not in cases(name):
            parser.error(f"no case {only} that runs alone; there are {', '.join(cases(name))}")
    for name in arguments.name or names():
        print(f"running {name} …", file=sys.stderr)
        result = run(name)
        if arguments.json:
            print(json.dumps(result), flush=True)
        else:
            print_report(result)


if __name__ == "__main__":
    main()
