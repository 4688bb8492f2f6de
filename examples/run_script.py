"""Log an evaluation from a plain script; what fails on the way fails the run, not the records.

python examples/run_script.py
"""

import time
from typing import Any

from prime_sync import TracesClient
from prime_sync.runs import init


def solve(number: int) -> dict[str, Any]:
    """Stands for your evaluation: the trace of one task."""
    if number == 40:
        raise ZeroDivisionError("task 40 has no answer")
    start = time.time()
    question = {"role": "user", "content": f"How much is {number} + {number}?"}
    answer = {"role": "assistant", "content": str(2 * number)}
    return {
        "id": f"task-{number}",
        "task": {"data": {"idx": number, "name": "sums"}},
        "nodes": [
            {"message": question, "sampled": False},
            {"parent": 0, "message": answer, "sampled": True},
        ],
        "rewards": {"correct": {"score": float(number % 2)}},
        "timing": {"start": start, "end": time.time()},
    }


# durable=True has every record on disk before the call returns: not even kill -9 loses one.
run = init(environments=["sums"], model="tiny", durable=True, context="local")
try:
    with run:
        for number in range(100):
            run.log_trace(solve(number))
            run.log_metrics({"done": number + 1}, step=number)
except ZeroDivisionError as error:
    print("stopped:", error)

assert run.receipt is not None
print(f"{run.status}: {run.receipt}")
with TracesClient(context="local") as client:
    traces = list(client.iter(run_id=run.id))
print(len(traces), "traces, reward", sum(trace.score.reward or 0 for trace in traces) / 40)
