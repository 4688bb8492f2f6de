"""``prime-async eval``: evaluations, through the core's client."""

from prime_async_cli.command import Entry, Group

__all__ = ["group"]

_PUSH = "From a run to the platform"
_READ = "Read"
_MANAGE = "Manage"

group = Group(
    "eval",
    {
        "push": Entry(
            "evals.push:push",
            "Push results: create an evaluation, send the samples, finalize it.",
            _PUSH,
        ),
        "create": Entry("evals.write:create", "Create an evaluation without samples.", _PUSH),
        "finalize": Entry("evals.write:finalize", "Close an evaluation, with metrics.", _PUSH),
        "sync": Entry("evals.sync:sync", "Deliver samples kept on this disk.", _PUSH),
        "list": Entry("evals.read:list_evaluations", "List evaluations.", _READ),
        "ls": Entry("evals.read:list_evaluations", "List evaluations.", _READ, alias_of="list"),
        "get": Entry("evals.read:get", "Show one evaluation.", _READ),
        "samples": Entry("evals.read:samples", "Show or stream the samples.", _READ),
        "logs": Entry("evals.hosted:logs", "Show the log of a hosted evaluation.", _READ),
        "update": Entry("evals.write:update", "Change what an evaluation says.", _MANAGE),
        "delete": Entry("evals.write:delete", "Delete evaluations.", _MANAGE),
        "stop": Entry("evals.hosted:stop", "Stop a hosted evaluation.", _MANAGE),
    },
    help="Create, push, read and manage evaluations.",
)
