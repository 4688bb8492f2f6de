"""What the configurations of prime-rl say of a run, and of which step its rollouts are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from prime_async.evals.traces_read import entry
from prime_async.runs.options import TrainingSpec

__all__ = ["run_options", "work_stamp"]


def run_options(config: Any, run_config: Any) -> dict[str, Any]:
    """Return the arguments of `init` that configurations and environment give.

    Args:
        config: of the monitor.
        run_config: of the trainer, or the orchestrator.
    """
    return dict(_found(config, run_config))


def work_stamp(record: Mapping[str, Any], kind: str, step: int) -> dict[str, Any]:
    """Say of a trace or episode which step it belongs to, unless it does itself."""
    stamp = record.get("run")
    before: Mapping[str, Any] = stamp if isinstance(stamp, Mapping) else {}
    return {"work": {"type": kind, "step": step}, **before}


def _found(config: Any, run_config: Any) -> Iterator[tuple[str, Any]]:
    yield "kind", "train"
    yield "framework", "prime-rl"
    run_id = os.environ.get("RUN_ID", "").strip()
    if run_id:
        yield "id", run_id
    yield from _account(config)
    yield "name", entry(config, "run_name") or entry(config, "name")
    yield "team_id", entry(config, "team_id")
    if run_config is not None:
        yield from _described(run_config)


def _account(config: Any) -> Iterator[tuple[str, str]]:
    """Yield address and key. The address may end where prime-rl's own requests begin."""
    address = entry(config, "base_url") or os.environ.get("PRIME_API_BASE", "").strip()
    key = os.environ.get(entry(config, "api_key_var") or "PRIME_API_KEY", "").strip()
    if address:
        yield "base_url", address.rstrip("/").removesuffix("/rft")
    if key:
        yield "api_key", key


def _described(run_config: Any) -> Iterator[tuple[str, Any]]:
    model = entry(run_config, "model")
    yield "model", model if isinstance(model, str) else entry(model, "name")
    dump = getattr(run_config, "model_dump", None)
    plain = dump(exclude_none=True, mode="json") if callable(dump) else run_config
    if isinstance(plain, Mapping):
        yield "config", plain
    train = entry(run_config, "train")
    sources = entry(train, "env") or entry(train, "source") or entry(run_config, "env")
    names = [entry(one, "id") or entry(entry(one, "env"), "id") for one in sources or ()]
    yield "environments", [name for name in names if name] or None
    yield (
        "training",
        TrainingSpec(
            max_steps=entry(run_config, "max_steps") or 0,
            batch_size=entry(run_config, "batch_size"),
            rollouts_per_example=entry(run_config, "group_size"),
            seq_len=entry(run_config, "seq_len"),
            wandb_project=entry(entry(run_config, "wandb"), "project"),
        ),
    )
