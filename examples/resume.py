"""Go on with a push that was cut off: nothing is sent twice, nothing is missing."""

from collections.abc import Iterator
from typing import Any

from prime_sync import EvalsClient

SAMPLES = [{"example_id": number, "completion": "x" * 1000} for number in range(1000)]
NAME = "nightly-2026-12-01"  # the same for every attempt


def crashing() -> Iterator[dict[str, Any]]:
    """Stands for a trainer that dies on the way."""
    yield from SAMPLES[:600]
    raise RuntimeError("out of memory")


with EvalsClient(context="local") as client:
    evaluation = client.create_evaluation("nightly", dataset="sums", model_name="tiny")
    evaluation_id = evaluation["evaluation_id"]

    try:
        client.push_samples(evaluation_id, crashing(), push_id=NAME)
    except RuntimeError as error:
        print(f"cut off ({error}): {error.__notes__[0]}")

    receipt = client.push_samples(evaluation_id, SAMPLES, push_id=NAME)
    print(f"went on: {receipt}, {receipt.bytes_sent:,} bytes sent this time")

    stored = [sample["example_id"] for sample in client.iter_samples(evaluation_id)]
    assert stored == list(range(1000))
    client.finalize_evaluation(evaluation_id)

# Without a push_id: PartialPushError carries receipt.resume_token for resume=, a file's progress is
# kept on disk (push_run(path, resume=True)), and so are samples that cannot be had again
# (client.sync_pushes(), or `prime-async eval sync`).
