"""Result folders for pushes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "verifiers_run" / "gsm8k--gpt-4o-mini" / "example"
"""A real run, as verifiers wrote it."""


def real_run(folder: Path) -> Path:
    """Copy the real run."""
    shutil.copytree(DATA, folder)
    return folder


def make_run(folder: Path, rows: list[Any], **metadata: Any) -> Path:
    """Write a result folder; a row that is text is written as it is."""
    folder.mkdir(parents=True)
    described = {"env": "gsm8k", "model": "m", "avg_reward": 0.5, **metadata}
    (folder / "metadata.json").write_text(json.dumps(described), "utf-8")
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """What reading back must give: the rows, with ``id`` as ``example_id`` too."""
    lines = (folder / "results.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line]
    return [{"example_id": row["id"], **row} if "id" in row else row for row in rows]
