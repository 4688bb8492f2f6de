"""What a sandbox may be made from: every rule names its field before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from prime_async.errors import UsageError
from prime_async.sandboxes.egress import check_egress_list
from prime_async.sandboxes.requests import CreateSandboxRequest, StartCommand, VolumeMount


def _request(**changes: Any) -> CreateSandboxRequest:
    return CreateSandboxRequest(**{"name": "box", "docker_image": "python:3.11", **changes})


def test_the_official_way_of_writing_a_request_works() -> None:
    """Fields, defaults and the wire are those of the official class; `vm` is ours."""
    request = CreateSandboxRequest(
        name="train",
        docker_image="python:3.11-slim",
        start_command=StartCommand(executable="tail", args=["-f", "/dev/null"]),
        cpu_cores=4,
        memory_gb=16,
        timeout_minutes=1440,
        environment_vars={"A": "1"},
        volumes=[VolumeMount(name="data", mount_path="/data")],
    )
    assert request.to_wire() == {
        "name": "train",
        "docker_image": "python:3.11-slim",
        "start_command": {"executable": "tail", "args": ["-f", "/dev/null"]},
        "cpu_cores": 4,
        "memory_gb": 16,
        "disk_size_gb": 5.0,
        "gpu_count": 0,
        "timeout_minutes": 1440,
        "environment_vars": {"A": "1"},
        "labels": [],
        "volumes": [{"name": "data", "mount_path": "/data", "read_only": False}],
        "vm": True,
    }


def test_a_checkpoint_stands_for_image_and_disk() -> None:
    """A request from a checkpoint carries neither."""
    wire = CreateSandboxRequest(name="again", checkpoint_id="chk_1").to_wire()
    assert "docker_image" not in wire
    assert "disk_size_gb" not in wire


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": 3}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"docker_image": None}, "docker_image"),
        ({"docker_image": " "}, "docker_image"),
        ({"checkpoint_id": "c"}, "docker_image"),
        ({"checkpoint_id": "c", "docker_image": None, "disk_size_gb": 5}, "disk_size_gb"),
        ({"checkpoint_id": "c" * 65, "docker_image": None}, "checkpoint_id"),
        ({"arch": "sparc"}, "arch"),
        ({"start_command": "sleep 1"}, "start_command"),
        ({"cpu_cores": 0}, "cpu_cores"),
        ({"cpu_cores": float("nan")}, "cpu_cores"),
        ({"cpu_cores": True}, "cpu_cores"),
        ({"memory_gb": -1}, "memory_gb"),
        ({"memory_gb": float("inf")}, "memory_gb"),
        ({"disk_size_gb": "5"}, "disk_size_gb"),
        ({"gpu_count": 1}, "gpu_type"),
        ({"gpu_type": "H100"}, "gpu_count"),
        ({"gpu_count": -1}, "gpu_count"),
        ({"network_allowlist": [], "network_denylist": []}, "network_denylist"),
        ({"network_allowlist": ["a/b"]}, "network_allowlist[0]"),
        ({"network_denylist": ["a.com"] * 1025}, "network_denylist"),
        ({"timeout_minutes": -1}, "timeout_minutes"),
        ({"timeout_minutes": 1.5}, "timeout_minutes"),
        ({"idle_timeout_minutes": 0}, "idle_timeout_minutes"),
        ({"idle_timeout_minutes": 61}, "idle_timeout_minutes"),
        ({"environment_vars": {"": "x"}}, "environment_vars"),
        ({"environment_vars": {"A=B": "x"}}, "environment_vars"),
        ({"environment_vars": {"A": 1}}, "environment_vars"),
        ({"secrets": {"A": "x\0"}}, "secrets"),
        ({"labels": "one"}, "labels"),
        ({"labels": [1]}, "labels"),
        ({"volumes": [{"name": "x"}]}, "volumes"),
        ({"team_id": 3}, "team_id"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"vm": None}, "vm"),
    ],
)
def test_a_broken_rule_names_its_field(changes: dict[str, Any], field: str) -> None:
    """Every rule is checked when the request is made."""
    with pytest.raises(UsageError) as caught:
        _request(**changes)
    assert caught.value.field == field


def test_a_change_after_the_check_is_checked_again() -> None:
    """Requests can be changed; what is sent is checked anew."""
    request = _request()
    request.timeout_minutes = -5
    with pytest.raises(UsageError, match="timeout_minutes"):
        request.check()


def test_secrets_are_in_no_text() -> None:
    """Neither the repr nor an error shows a value."""
    assert "CANARY" not in repr(_request(secrets={"A": "CANARY"}))
    with pytest.raises(UsageError) as caught:
        _request(secrets={"A": "CANARY\0"})
    assert "CANARY" not in str(caught.value)


def test_idle_time_without_an_end_may_be_long() -> None:
    """A sandbox without a lifetime may idle as long as it likes."""
    assert _request(timeout_minutes=0, idle_timeout_minutes=10_000).idle_timeout_minutes == 10_000


@pytest.mark.parametrize(
    "entry",
    [
        "a.com",
        "*.a.com",
        "localhost",
        "a-b.c_d.com:443",
        "a.com:80",
        "10.0.0.7",
        "10.1.2.3/8",
        "10.0.0.1:22",
        "10.0.0.0/8:1-65535",
        " a.com ",
    ],
)
def test_good_egress_entries_pass(entry: str) -> None:
    """Hosts, wildcards, addresses, networks, ports."""
    assert check_egress_list("network_allowlist", [entry]) == [entry.strip()]


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "*",
        "*.*.com",
        "a.*.com",
        "::1",
        "[::1]",
        "http://a.com",
        "a.com/x",
        "me@a.com",
        "a?b",
        "a..com",
        ".a.com",
        "a.com:22",
        "a.com:80-443",
        "10.0.0.1:0",
        "10.0.0.1:65536",
        "a.com:",
        "10.0.0.1:9-8",
        "10.0.0.300",
        "10.0.0.0/33",
        "1.2.3",
        "-a.com",
        "a" * 64 + ".com",
        "a b",
    ],
)
def test_bad_egress_entries_are_refused(entry: str) -> None:
    """Everything else is refused by position."""
    with pytest.raises(UsageError) as caught:
        check_egress_list("network_allowlist", ["ok.com", entry])
    assert caught.value.field == "network_allowlist[1]"
