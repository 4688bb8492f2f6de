"""``prime-async traces``: traces and episodes, through the core's client."""

from prime_async_cli.command import Entry, Group

__all__ = ["group"]

_SEND = "To the platform"
_READ = "Read"
_MANAGE = "Manage"

group = Group(
    "traces",
    {
        "upload": Entry("traces.upload:upload", "Upload a file of traces or episodes.", _SEND),
        "sync": Entry("traces.sync:sync", "Deliver what runs left on this disk.", _SEND),
        "list": Entry("traces.lists:list_traces", "List traces, episodes or runs.", _READ),
        "ls": Entry(
            "traces.lists:list_traces", "List traces, episodes or runs.", _READ, alias_of="list"
        ),
        "get": Entry("traces.get:get", "Show one trace, episode or run.", _READ),
        "search": Entry("traces.search:search", "Find a text in the messages of a run.", _READ),
        "tail": Entry("traces.tail:tail", "Show the traces of a run as they come.", _READ),
        "export": Entry("traces.export:export", "Write traces into one file.", _READ),
        "delete": Entry("traces.delete:delete", "Delete a trace, or all traces of a run.", _MANAGE),
    },
    help="Upload, read, search, export and delete traces.",
)
