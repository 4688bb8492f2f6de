"""``prime-async config``: the configuration files, through the core's `ConfigStore`."""

from prime_async_cli.command import Entry, Group

__all__ = ["group"]

_READ = "Read"
_ACCOUNT = "Account"
_ADDRESSES = "Addresses"
_SWITCHES = "Switches and paths"
_CONTEXTS = "Contexts"

group = Group(
    "config",
    {
        "view": Entry("config.view:view", "Show every setting and where it comes from.", _READ),
        "set-api-key": Entry(
            "config.account:set_api_key", "Store an API key, read without showing it.", _ACCOUNT
        ),
        "set-team-id": Entry("config.account:set_team_id", "Act for a team.", _ACCOUNT),
        "remove-team-id": Entry(
            "config.account:remove_team_id", "Act for the personal account again.", _ACCOUNT
        ),
        "set-base-url": Entry(
            "config.settings:set_base_url", "Store the address of the platform.", _ADDRESSES
        ),
        "set-frontend-url": Entry(
            "config.settings:set_frontend_url", "Store the address of the web pages.", _ADDRESSES
        ),
        "set-inference-url": Entry(
            "config.settings:set_inference_url", "Store the address of inference.", _ADDRESSES
        ),
        "set-traces-url": Entry(
            "config.settings:set_traces_url", "Store the address traces go to.", _ADDRESSES
        ),
        "set-ssh-key-path": Entry(
            "config.settings:set_ssh_key_path", "Store the path of the SSH key.", _SWITCHES
        ),
        "set-share-resources-with-team": Entry(
            "config.settings:set_share_resources_with_team",
            "Share new resources with the team, or not.",
            _SWITCHES,
        ),
        "set-traces-opt-out": Entry(
            "config.settings:set_traces_opt_out", "Send no traces, or send them.", _SWITCHES
        ),
        "set-strict-local": Entry(
            "config.settings:set_strict_local",
            "Forbid sending anything off this machine, or allow it.",
            _SWITCHES,
        ),
        "use": Entry("config.contexts:use", "Make a context the current one.", _CONTEXTS),
        "save": Entry("config.contexts:save", "Save the account under a name.", _CONTEXTS),
        "delete": Entry("config.contexts:delete", "Delete a saved context.", _CONTEXTS),
        "envs": Entry("config.contexts:envs", "List the contexts.", _CONTEXTS),
        "list": Entry("config.contexts:envs", "List the contexts.", _CONTEXTS, alias_of="envs"),
        "ls": Entry("config.contexts:envs", "List the contexts.", _CONTEXTS, alias_of="envs"),
        "reset": Entry(
            "config.settings:reset", "Start afresh; the old file is kept beside.", _SWITCHES
        ),
    },
    help="Read and change the configuration and its contexts.\n\n"
    "The files are those of the official command (~/.prime): a login made there works here.",
)
