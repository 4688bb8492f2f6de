"""The options that say what a sandbox is made from: the same for ``create`` and ``run``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import asyncclick

from prime_async_cli.options import Number, Word
from prime_async_cli.session import Session
from prime_async_cli.value_types import Amount, Mount, Variable

if TYPE_CHECKING:
    from prime_async.sandboxes import CreateSandboxRequest

__all__ = ["make_options", "make_request", "variables"]

_SIZES = (
    ("--cpu-cores", "Processor cores.", 1.0),
    ("--memory-gb", "Memory in GB.", 1.0),
    ("--disk-size-gb", "Disk in GB; 5 by default, or that of the checkpoint.", None),
)
_LISTS = (
    (("-l", "--label"), "labels", "TEXT", "A word to find it by; may be given again."),
    (("--network-allow",), "network_allowlist", "HOST", "It may reach only these hosts; again."),
    (("--network-deny",), "network_denylist", "HOST", "It may reach all but these hosts; again."),
)
_LIFETIME = "Minutes it lives at most; 0 for no end."
_MOST = 1_000_000
_MOST_MINUTES = 10_000_000


def make_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; :func:`make_request` takes what they give."""
    option = asyncclick.option
    decorators = [
        option("--name", metavar="TEXT", help="Its name; by default one after the image."),
        *(
            option(
                flag,
                type=Amount(0, _MOST, min_open=True),
                default=size,
                show_default=True,
                help=text,
            )
            for flag, text, size in _SIZES
        ),
        option("--gpu-count", type=Number(0, 1000), default=0, help="How many GPUs."),
        option("--gpu-type", metavar="TEXT", help="Which GPUs; goes with --gpu-count."),
        option("--arch", type=asyncclick.Choice(["amd64", "arm64"]), help="Its processor."),
        option(
            "--timeout-minutes",
            type=Number(0, _MOST_MINUTES),
            default=60,
            show_default=True,
            help=_LIFETIME,
        ),
        option(
            "--idle-timeout-minutes",
            type=Number(1, _MOST_MINUTES),
            help="Ends it earlier, after so long without a command.",
        ),
        option(
            "-e",
            "--env",
            "environment",
            type=Variable(),
            multiple=True,
            metavar="NAME[=VALUE]",
            help="A variable for its commands; NAME alone takes the value it has here.",
        ),
        option(
            "--secret",
            "secrets",
            type=Variable(),
            multiple=True,
            metavar="NAME[=VALUE]",
            help="As --env, but never shown again; NAME alone keeps it off this command line.",
        ),
        *(
            option(*flags, name, multiple=True, type=Word(), metavar=metavar, help=text)
            for flags, name, metavar, text in _LISTS
        ),
        option(
            "--volume",
            "volumes",
            type=Mount(),
            multiple=True,
            metavar="NAME:/PATH[:ro]",
            help="A volume and where it appears in it, `:ro` to read only; may be given again.",
        ),
        option("--region", metavar="TEXT", help="Where it runs."),
        option("--container", is_flag=True, help="A container in place of a virtual machine."),
    ]
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def make_request(
    session: Session,
    image: str | None,
    *,
    name: str | None,
    environment: Sequence[tuple[str, str]],
    secrets: Sequence[tuple[str, str]],
    volumes: Sequence[tuple[str, str, bool]],
    container: bool,
    checkpoint: str | None = None,
    command: Sequence[str] = (),
    **rest: Any,
) -> CreateSandboxRequest:
    """Check what the options say.

    Args:
        session: keeps the secrets out of every message from now on.
        image: what it is made from, or None with a `checkpoint`.
        command: what it runs from its start.
        rest: options that have the names of the request's fields.

    Raises:
        UsageError: a rule is broken; names the option's field.
    """
    from prime_async.sandboxes import CreateSandboxRequest, StartCommand, VolumeMount

    session.secrets.update(value for _, value in (*environment, *secrets))
    for key in ("network_allowlist", "network_denylist"):
        rest[key] = list(rest[key]) or None
    start = StartCommand(executable=command[0], args=list(command[1:])) if command else None
    return CreateSandboxRequest(
        name=_name_after(image or "restored") if name is None else name,
        docker_image=image,
        checkpoint_id=checkpoint,
        labels=list(rest.pop("labels")),
        environment_vars=variables(environment),
        secrets=variables(secrets),
        start_command=start,
        volumes=[
            VolumeMount(name=volume, mount_path=path, read_only=read_only)
            for volume, path, read_only in volumes
        ]
        or None,
        vm=not container,
        **rest,
    )


def variables(pairs: Sequence[tuple[str, str]]) -> dict[str, str] | None:
    """Return the variables of options; the last of a name counts."""
    return dict(pairs) or None


def _name_after(image: str) -> str:
    """Return the image's last part and something that tells it from others of its kind."""
    import secrets

    base = image.partition("@")[0].rpartition("/")[2].partition(":")[0][:40]
    return f"{base or 'sandbox'}-{secrets.token_hex(2)}"
