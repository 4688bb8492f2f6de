"""``prime-async job``: background jobs in sandboxes, through the core's client."""

from prime_async_cli.command import Entry, Group

__all__ = ["group"]

group = Group(
    "job",
    {
        "start": Entry("job.start:start", "Start a command that goes on by itself."),
        "wait": Entry("job.wait:wait", "Wait until jobs have ended, and show what they wrote."),
        "follow": Entry("job.wait:follow", "Show what a job writes, until it has ended."),
        "status": Entry("job.status:status", "Show whether jobs have ended."),
        "cancel": Entry("job.status:cancel", "End jobs."),
        "list": Entry("job.status:list_jobs", "List the jobs of a sandbox."),
        "ls": Entry("job.status:list_jobs", "List the jobs of a sandbox.", alias_of="list"),
    },
    help="Run commands in sandboxes that go on when this one has ended.",
)
