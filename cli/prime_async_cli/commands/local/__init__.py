"""``prime-async local``: the embedded platform, through `prime_async.local`."""

from prime_async_cli.command import Entry, Group

__all__ = ["group"]

group = Group(
    "local",
    {
        "start": Entry("local.life:start", "Start the platform; harmless when it runs."),
        "status": Entry("local.life:status", "Show whether and where it runs."),
        "stop": Entry("local.life:stop", "Stop the platform; its data stay."),
        "logs": Entry("local.logs:logs", "Show what the platform says."),
        "env": Entry("local.environment:env", "Print the variables that point any client at it."),
    },
    help="Start, stop and watch the embedded platform.\n\n"
    "It runs in the background on this machine, keeps its data in ~/.prime/local, and listens on "
    "the loopback interface only. With `--context local` every command talks to it and starts it "
    "when needed.",
)
