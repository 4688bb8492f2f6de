"""``prime-async sandbox``: sandboxes, through the core's client."""

from prime_async_cli.command import Entry, Group

__all__ = ["group"]

_RUN = "Run"
_FILES = "Files"
_MANAGE = "Manage"
_AROUND = "Around them"

group = Group(
    "sandbox",
    {
        "run": Entry(
            "sandbox.execute:run", "Run a command in a sandbox made for it, and delete it.", _RUN
        ),
        "exec": Entry("sandbox.execute:exec_", "Run a command in a sandbox.", _RUN),
        "upload": Entry("sandbox.files:upload", "Send a file or folder into a sandbox.", _FILES),
        "download": Entry(
            "sandbox.files:download", "Read a file or folder out of a sandbox.", _FILES
        ),
        "files": Entry("sandbox.files:files", "List what is in a folder of a sandbox.", _FILES),
        "create": Entry("sandbox.create:create", "Create a sandbox.", _MANAGE),
        "list": Entry("sandbox.read:list_sandboxes", "List sandboxes.", _MANAGE),
        "ls": Entry("sandbox.read:list_sandboxes", "List sandboxes.", _MANAGE, alias_of="list"),
        "get": Entry("sandbox.read:get", "Show one sandbox.", _MANAGE),
        "logs": Entry("sandbox.read:logs", "Show what its start command writes.", _MANAGE),
        "delete": Entry("sandbox.delete:delete", "Delete sandboxes.", _MANAGE),
        "checkpoint": Entry(
            "sandbox.checkpoint:group",
            "Keep the files of a sandbox, and make others from them.",
            _AROUND,
        ),
        "volumes": Entry("sandbox.volumes:group", "Share folders between sandboxes.", _AROUND),
        "expose": Entry("sandbox.expose:group", "Reach a port of a sandbox from outside.", _AROUND),
        "network": Entry("sandbox.network:group", "See and say what a sandbox may reach.", _AROUND),
    },
    help="Run commands in sandboxes, move files.",
)
