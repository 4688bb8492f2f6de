"""``prime-async runs``: what runs are and what they reported."""

from prime_async_cli.command import Entry, Group

__all__ = ["group"]

group = Group(
    "runs",
    {
        "list": Entry("runs.read:list_runs", "List runs with their state and their traces."),
        "ls": Entry(
            "runs.read:list_runs", "List runs with their state and their traces.", alias_of="list"
        ),
        "get": Entry("runs.read:get", "Show one run."),
        "metrics": Entry("runs.metrics:metrics", "Draw the metrics of a run."),
        "compare": Entry("runs.compare:compare", "Put the metrics of runs side by side."),
    },
    help="Read and compare runs: evaluations and trainings.",
)
