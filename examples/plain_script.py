"""Push a result folder, as verifiers writes it, from a plain script: no await anywhere.

python examples/plain_script.py [DIR]
"""

import json
import sys
import tempfile
from pathlib import Path

from prime_sync import EvalsClient


def written_by_verifiers() -> Path:
    """Stands for your run: two files in a folder of their own."""
    folder = Path(tempfile.mkdtemp())
    described = {"env_id": "sums", "model": "tiny", "avg_reward": 0.5}
    (folder / "metadata.json").write_text(json.dumps(described))
    rows = [{"example_id": number, "reward": number % 2} for number in range(20)]
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


folder = Path(sys.argv[1]) if len(sys.argv) > 1 else written_by_verifiers()
with EvalsClient(context="local") as client:
    pushed = client.push_run(folder)  # checks the file, creates, pushes, finalizes
    print(f"{pushed.receipt}; {pushed.run.name} is evaluation {pushed.evaluation_id}")

    # Again into the same evaluation: nothing changes. Had the file grown, the rest would be added.
    again = client.push_run(folder, evaluation_id=pushed.evaluation_id)
    evaluation = client.get_evaluation(pushed.evaluation_id)
    print(f"{again.receipt}; it holds {evaluation.total_samples}, {evaluation.metrics}")

    for sample in client.iter_samples(pushed.evaluation_id):
        if sample.get("reward") == 0:
            print(f"first failure: {sample['example_id']}")
            break
