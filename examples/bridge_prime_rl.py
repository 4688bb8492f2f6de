"""Report a training as the trainers of prime-rl do. RUN_ID would name a run that exists.

python examples/bridge_prime_rl.py
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from prime_async.bridges import RunMonitor


def rollout(step: int, number: int) -> dict[str, Any]:
    """Stands for a rollout of the orchestrator, a trace of verifiers."""
    start = time.time()
    answer = {"role": "assistant", "content": str(number)}
    return {
        "id": f"rollout-{step}-{number}-{start}",
        "nodes": [{"parent": None, "message": answer, "sampled": True, "timestamp": start}],
        "rewards": {"right": {"score": float(number % 2), "weight": 1.0}},
        "ok": True,
        "timing": {"start": start},
    }


output_dir = Path(tempfile.mkdtemp())
run_config = {"model": {"name": "tiny"}, "max_steps": 3, "batch_size": 8, "seq_len": 128}
monitor = RunMonitor(run_config=run_config, output_dir=output_dir, context="local")
for step in range(3):
    monitor.log({"loss": 1 / (step + 1)}, step=step)
    monitor.log_samples([rollout(step, number) for number in range(8)], step=step)
    monitor.log_distributions({"reward": [number % 2 for number in range(8)]}, step=step)
monitor.log_final_samples()
monitor.save_final_summary()
monitor.close()  # does not wait: what is on its way is delivered until the process has ended

sys.exit(0 if (output_dir / "final_summary.json").is_file() else "no summary was written")
