"""What a sandbox is made from, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from prime_async.errors import UsageError
from prime_async.sandboxes.egress import check_egress_list

__all__ = ["CreateSandboxRequest", "StartCommand", "VolumeMount", "check_environment"]

_DEFAULT_DISK_GB = 5.0
_MAX_KEY = 200
_OURS = ("lan_network_id", "lan_tags")


class StartCommand(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a sandbox runs from its start: a program and its arguments, no shell.

    Raises:
        UsageError: the program is empty, or a NUL is in it.
    """

    executable: str
    args: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        _text("start_command.executable", self.executable)
        for index, argument in enumerate(self.args):
            _text(f"start_command.args[{index}]", argument, empty=True)


class VolumeMount(msgspec.Struct, kw_only=True):
    """A volume and where it appears in the sandbox."""

    name: str
    mount_path: str
    read_only: bool = False

    def __post_init__(self) -> None:
        _text("volumes.name", self.name)
        _text("volumes.mount_path", self.mount_path)


class CreateSandboxRequest(msgspec.Struct, kw_only=True):
    """What a sandbox is made from. Checked when it is made, and again when it is sent.

    Args:
        name: what it is called.
        docker_image: its image; needed unless it is made from a checkpoint.
        checkpoint_id: the checkpoint it continues from, in place of an image and a disk size.
        arch: ``amd64`` or ``arm64``.
        start_command: what it runs from its start.
        cpu_cores, memory_gb, disk_size_gb: its limits; 1 core, 1 GB and 5 GB by default.
        gpu_count, gpu_type: both or none.
        network_allowlist, network_denylist: what it may, or may not, reach; one of them, or none.
        timeout_minutes: its lifetime; 60 by default, 0 for none. There is no upper limit here.
        idle_timeout_minutes: ends it earlier, after so long without a command.
        environment_vars: for every command in it; ``secrets`` as well, and never shown again.
        labels: words to find it by.
        team_id: the team it belongs to; by default the client's.
        region: where it runs.
        advanced_configs: passed on as it is.
        idempotency_key: makes creating it twice the same as once; by default a fresh one.
        volumes: what is mounted in it.
        lan_network_id: a network that it joins when it is waited for
            (:meth:`~prime_async.sandboxes.AsyncSandboxClient.wait_for_creation`), with `lan_tags`.
        vm: False makes a container in place of a virtual machine.

    Raises:
        UsageError: a rule is broken; ``.field`` names the argument.
    """

    name: str
    docker_image: str | None = None
    checkpoint_id: str | None = None
    arch: str | None = None
    start_command: StartCommand | None = None
    cpu_cores: float = 1.0
    memory_gb: float = 1.0
    disk_size_gb: float | None = None
    gpu_count: int = 0
    gpu_type: str | None = None
    network_allowlist: list[str] | None = None
    network_denylist: list[str] | None = None
    timeout_minutes: int = 60
    idle_timeout_minutes: int | None = None
    environment_vars: dict[str, str] | None = None
    secrets: dict[str, str] | None = None
    labels: list[str] = msgspec.field(default_factory=list)
    team_id: str | None = None
    region: str | None = None
    advanced_configs: dict[str, Any] | None = None
    idempotency_key: str | None = None
    volumes: list[VolumeMount] | None = None
    vm: bool = True
    lan_network_id: str | None = None
    lan_tags: list[str] | None = None

    def __post_init__(self) -> None:
        self.check()
        if self.checkpoint_id is None and self.disk_size_gb is None:
            self.disk_size_gb = _DEFAULT_DISK_GB

    def __repr__(self) -> str:
        return f"CreateSandboxRequest(name={self.name!r}, docker_image={self.docker_image!r})"

    def check(self) -> None:
        """Check every rule; nothing else is done.

        Raises:
            UsageError: a rule is broken.
        """
        _text("name", self.name)
        _check_source(self)
        _check_size(self)
        _check_network(self)
        _check_lifetime(self)
        for field in ("environment_vars", "secrets"):
            check_environment(field, getattr(self, field))
        _check_list("labels", self.labels, str)
        _check_list("volumes", self.volumes or (), VolumeMount)
        _check_lan(self)
        for field in ("team_id", "region", "idempotency_key"):
            value = getattr(self, field)
            if value is not None and not isinstance(value, str):
                raise UsageError(f"{field} is a {type(value).__name__}, not text", field=field)
        if self.idempotency_key is not None and not 0 < len(self.idempotency_key) <= _MAX_KEY:
            raise UsageError(
                f"idempotency_key is empty or longer than {_MAX_KEY}", field="idempotency_key"
            )
        if not isinstance(self.vm, bool):
            raise UsageError(f"vm is {self.vm!r}; it is True or False", field="vm")

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object of the wire: what is not set, and what is the client's to do, is
        left out.
        """
        wire: dict[str, Any] = msgspec.to_builtins(self)
        return {key: value for key, value in wire.items() if value is not None and key not in _OURS}


def _check_source(request: CreateSandboxRequest) -> None:
    if request.checkpoint_id is None:
        if request.docker_image is None:
            raise UsageError("docker_image is missing", field="docker_image")
        _text("docker_image", request.docker_image)
    else:
        _text("checkpoint_id", request.checkpoint_id, longest=64)
        for field in ("docker_image", "disk_size_gb"):
            if getattr(request, field) is not None:
                raise UsageError(
                    f"{field} comes with the checkpoint and cannot be given too", field=field
                )
    if request.arch not in (None, "amd64", "arm64"):
        raise UsageError(f"arch is {request.arch!r}; it is amd64 or arm64", field="arch")
    if not isinstance(request.start_command, StartCommand | None):
        raise UsageError(
            f"start_command is a {type(request.start_command).__name__}",
            field="start_command",
            hint='StartCommand(executable="python", args=["-m", "http.server"])',
        )


def _check_size(request: CreateSandboxRequest) -> None:
    for field in ("cpu_cores", "memory_gb", "disk_size_gb"):
        value = getattr(request, field)
        if value is None and field == "disk_size_gb":
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < float("inf"):
            raise UsageError(f"{field} is {value!r}; it must be a positive number", field=field)
    _whole("gpu_count", request.gpu_count, 0)
    if bool(request.gpu_count) != bool(request.gpu_type):
        missing = "gpu_type" if request.gpu_count else "gpu_count"
        raise UsageError("gpu_count and gpu_type go together", field=missing)


def _check_network(request: CreateSandboxRequest) -> None:
    if request.network_allowlist is not None and request.network_denylist is not None:
        raise UsageError(
            "network_allowlist and network_denylist exclude each other", field="network_denylist"
        )
    for field in ("network_allowlist", "network_denylist"):
        entries = getattr(request, field)
        if entries is not None:
            check_egress_list(field, entries)


def _check_lan(request: CreateSandboxRequest) -> None:
    if request.lan_tags is not None:
        _check_list("lan_tags", request.lan_tags, str)
        if request.lan_network_id is None:
            raise UsageError("lan_tags without a lan_network_id say nothing", field="lan_tags")
    if request.lan_network_id is None:
        return
    _text("lan_network_id", request.lan_network_id)
    if not request.vm:
        raise UsageError(
            "lan_network_id is for virtual machines; containers join no network",
            field="lan_network_id",
        )


def _check_lifetime(request: CreateSandboxRequest) -> None:
    _whole("timeout_minutes", request.timeout_minutes, 0)
    idle = request.idle_timeout_minutes
    if idle is None:
        return
    _whole("idle_timeout_minutes", idle, 1)
    if request.timeout_minutes and idle > request.timeout_minutes:
        raise UsageError(
            f"idle_timeout_minutes ({idle}) is longer than timeout_minutes "
            f"({request.timeout_minutes})",
            field="idle_timeout_minutes",
        )


def check_environment(field: str, variables: Mapping[str, str] | None) -> None:
    """Check variables for commands.

    Raises:
        UsageError: a name or value that no process can have; the message never shows a value.
    """
    if variables is None:
        return
    if not isinstance(variables, Mapping):
        raise UsageError(f"{field} is a {type(variables).__name__}, not a mapping", field=field)
    for name, value in variables.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise UsageError(
                f"{field} has the name {name!r}, which no variable can have", field=field
            )
        if not isinstance(value, str) or "\0" in value:
            what = "a NUL in it" if isinstance(value, str) else f"the type {type(value).__name__}"
            raise UsageError(f"{field}[{name!r}] has {what}; it must be text", field=field)


def _text(field: str, value: object, *, empty: bool = False, longest: int | None = None) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{field} is a {type(value).__name__}, not text", field=field)
    if not empty and not value.strip():
        raise UsageError(f"{field} is empty", field=field)
    if "\0" in value:
        raise UsageError(f"{field} has a NUL in it", field=field)
    if longest is not None and len(value) > longest:
        raise UsageError(f"{field} is longer than {longest} characters", field=field)


def _whole(field: str, value: object, lowest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise UsageError(
            f"{field} is {value!r}; it must be a whole number, at least {lowest}", field=field
        )


def _check_list(field: str, values: Sequence[object], kind: type) -> None:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise UsageError(f"{field} is not a list", field=field)
    for index, value in enumerate(values):
        if not isinstance(value, kind):
            raise UsageError(
                f"{field}[{index}] is a {type(value).__name__}, not {kind.__name__}", field=field
            )
