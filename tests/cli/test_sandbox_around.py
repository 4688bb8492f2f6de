"""``prime-async sandbox checkpoint|volumes|expose|network`` on the embedded platform."""

from __future__ import annotations

import json
import re
import shlex
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from prime_async_cli.app import root
from prime_async_cli.command import Command
from prime_async_cli.tree import walk

from prime_sync import CreateSandboxRequest, SandboxClient, VolumeMount
from tests.cli.harness import Ran
from tests.stub import Answer, Stub

Run = Callable[..., Ran]

SERVER = ["python3", "-m", "http.server", "8000", "--directory", "/app"]


@pytest.fixture
def inside_json(inside: Run) -> Callable[..., dict[str, object]]:
    """Run a command in its JSON mode and read what it said."""

    def run(*words: str) -> dict[str, object]:
        ran = inside("sandbox", *words, "-o", "json")
        assert (ran.code, ran.err) == (0, ""), ran
        document: dict[str, object] = json.loads(ran.out)
        return document

    return run


@pytest.fixture
def cleared(sandboxes: str) -> Iterator[str]:
    """The label of sandboxes that are deleted afterwards."""
    yield "around"
    with SandboxClient() as client:
        for left in client.list(labels=["around"], exclude_terminated=True).sandboxes:
            client.delete(left.id)


def test_files_go_on_in_another_sandbox(
    cleared: str, inside: Run, inside_json: Callable[..., dict[str, object]]
) -> None:
    """Create, keep, list, restore, delete; what was written before is there, and only that."""
    box = str(inside_json("create", "--label", cleared, "--wait")["id"])
    with SandboxClient() as client:
        client.upload_bytes(box, "/app/kept", b"kept")
        checkpoint = str(inside_json("checkpoint", "create", box, "--wait")["id"])
        client.upload_bytes(box, "/app/later", b"later")
        again = inside_json("checkpoint", "restore", checkpoint, "--label", cleared, "--wait")
        assert again["status"] == "RUNNING"
        names = [entry.name for entry in client.list_files(str(again["id"]), "/app")]
    assert names == ["kept"]
    other = inside_json("create", "--checkpoint", checkpoint, "--label", cleared)
    assert other["id"] not in (box, again["id"])
    listed = inside("sandbox", "checkpoint", "list", box)
    assert checkpoint in listed.out
    assert "DURABLE" in listed.out
    assert inside_json("checkpoint", "get", checkpoint)["state"] == "DURABLE"
    for name in (str(again["id"]), str(other["id"]), box):
        assert inside("sandbox", "delete", name, "-y").code == 0
    some = inside("sandbox", "checkpoint", "delete", checkpoint, "nosuch", "-y", "-o", "json")
    assert some.code == 1
    assert json.loads(some.out)["deleted"] == [checkpoint]
    assert json.loads(some.err)["error"]["failed"] == ["nosuch"]
    assert inside("sandbox", "checkpoint", "get", checkpoint).code == 1


def test_a_folder_is_shared(
    cleared: str, inside: Run, inside_json: Callable[..., dict[str, object]]
) -> None:
    """Create, mount, publish, mount to read only, delete."""
    assert inside_json("volumes", "create", "shared")["name"] == "shared"
    taken = inside("sandbox", "volumes", "create", "shared")
    assert taken.code == 1
    assert "shared" in taken.err
    writer = str(
        inside_json("create", "--volume", "shared:/data", "--label", cleared, "--wait")["id"]
    )
    with SandboxClient() as client:
        client.upload_bytes(writer, "/data/model", b"weights")
        version = inside_json("volumes", "publish", writer, "shared")
        assert inside_json("volumes", "get", "shared")["head_checkpoint_id"] == version["id"]
        mount = ["--volume", "shared:/in:ro"]
        reader = str(inside_json("create", *mount, "--label", cleared, "--wait")["id"])
        assert client.read_file(reader, "/in/model").content == "weights"
        assert client.execute_command(reader, "touch /in/x").exit_code != 0
    assert "shared" in inside("sandbox", "volumes", "list").out
    for name in (writer, reader):
        assert inside("sandbox", "delete", name, "-y").code == 0
    assert inside("sandbox", "volumes", "delete", "shared").code == 2  # nobody can answer
    assert inside_json("volumes", "delete", "shared", "--yes") == {"deleted": "shared"}


def test_a_port_is_reached_from_outside(
    cleared: str, inside: Run, inside_json: Callable[..., dict[str, object]]
) -> None:
    """Add, use, list, remove."""
    words = ["create", "python:3.11", "--label", cleared, "--wait", "--", *SERVER]
    made = inside("sandbox", *words[: -len(SERVER) - 1], "-o", "json", "--", *SERVER)
    assert made.code == 0, made
    box = json.loads(made.out)["id"]
    with SandboxClient() as client:
        client.upload_bytes(box, "/app/hello", b"from inside")
        up = "for i in $(seq 100); do curl -s localhost:8000 && break; sleep 0.1; done; true"
        client.execute_command(box, up)
    exposed = inside_json("expose", "add", box, "8000", "--name", "web")
    with urllib.request.urlopen(f"{str(exposed['url']).rstrip('/')}/hello") as answer:
        assert answer.read() == b"from inside"
    assert "web" in inside("sandbox", "expose", "list").out
    assert len(inside_json("expose", "list", box)["exposures"]) == 1  # type: ignore[arg-type]
    name = str(exposed["exposure_id"])
    assert inside_json("expose", "remove", box, name) == {"removed": name}
    assert inside("sandbox", "expose", "list", box).err == "no exposed ports\n"


def test_what_a_sandbox_may_reach(cleared: str, inside: Run) -> None:
    """Get and set, in words."""
    made = inside("sandbox", "create", "--label", cleared, "--wait", "-o", "json")
    box = json.loads(made.out)["id"]
    for words, said in (
        (["--allow", "pypi.org", "--allow", "10.0.0.0/8"], "only pypi.org, 10.0.0.0/8"),
        (["--deny", "pypi.org"], "everything but pypi.org"),
        (["--deny-all"], "nothing"),
        (["--allow-all"], "everything"),
    ):
        ran = inside("sandbox", "network", "set", box, *words)
        assert ran.code == 0, ran
        assert re.search(f"reaches: +{re.escape(said)}\n", ran.out), ran
        assert inside("sandbox", "network", "get", box).out == ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["network", "set", "x"], "--allow, --deny, --allow-all or --deny-all"),
        (["network", "set", "x", "--allow-all", "--deny-all"], "one of the four"),
        (["network", "set", "x", "--allow", "https://a"], "allow[0]"),
        (["expose", "add", "x", "0"], "1 to 65,535"),
        (["expose", "add", "x", "80", "--protocol", "UDP"], "UDP"),
        (["checkpoint", "delete"], "ids, or --sandbox"),
        (["checkpoint", "delete", "x", "--sandbox", "y"], "ids, or --sandbox"),
        (["checkpoint", "get", "a/b"], "is not an id"),
        (["checkpoint", "restore", "x", "--disk-size-gb", "5"], "disk_size_gb comes with"),
        (["create", "ubuntu", "--checkpoint", "x"], "IMAGE comes with"),
        (["create", "--volume", "data"], "NAME:/PATH"),
        (["create", "--volume", "data:path"], "NAME:/PATH"),
        (["create", "--volume", "data:/a:wx"], "NAME:/PATH:ro"),
        (["volumes", "create", "a/b"], "name 'a/b' is not an id"),
        (["volumes", "list", "--limit", "101"], "1 to 100"),
    ],
)
@pytest.mark.usefixtures("platform")
def test_wrong_words(words: list[str], said: str, inside: Run) -> None:
    """Exit 2, and what would be right."""
    ran = inside("sandbox", *words)
    assert ran.code == 2, ran
    assert said in ran.err


def test_what_this_platform_does_not_have(inside: Run, stub: Stub) -> None:
    """A 501 is told in words, with the way out."""
    stub.default = Answer(501, json={"detail": "no volumes here"})
    ran = inside("sandbox", "volumes", "list", "-o", "json")
    assert (ran.code, ran.out) == (1, "")
    error = json.loads(ran.err)["error"]
    assert (error["type"], error["status"]) == ("NotImplementedByPlatformError", 501)
    assert error["message"] == "no volumes here"
    assert "PRIME_CONTEXT=production" in error["hint"]
    assert "ambiguous" not in error


def test_the_examples_of_the_help_pages(cleared: str, inside: Run) -> None:
    """Typed one after the other, with names of this platform in place of ours."""
    mount = VolumeMount(name="data", mount_path="/data")
    request = CreateSandboxRequest(
        name="x", docker_image="python:3.11", labels=[cleared], volumes=[mount]
    )
    with SandboxClient() as client:
        for name in ("data", "spare"):
            client.volumes.create(name)
        box = client.create(request).id
        client.wait_for_creation(box)
        kept = client.wait_for_checkpoint(client.checkpoint(box).id).id
        port = client.expose(box, 9000).exposure_id
        names = {"ID": box, "CHECKPOINT": kept, "EXPOSURE": port}
        for example in examples():
            words = [names.get(word, word) for word in shlex.split(example)[1:]]
            for command, name in (("create", "spare2"), ("delete", "spare")):
                if words[1:3] == ["volumes", command]:
                    words[3] = name
            words += ["--label", cleared] if words[2] == "restore" else []
            words += ["--yes"] if words[2] == "delete" and "--yes" not in words else []
            ran = inside(*words)
            # The newest checkpoint of a sandbox that runs stays.
            assert ran.code == (1 if "--sandbox" in words else 0), (words, ran)
            for made in client.list(labels=[cleared], exclude_terminated=True).sandboxes:
                if made.id != box:  # restored: what it was made from could not be deleted
                    client.delete(made.id)
        client.delete(box)
        for name in ("data", "spare2"):
            client.volumes.delete(name)


def examples() -> list[str]:
    """Those of the four groups, in the order of the help pages."""
    around = {"checkpoint", "volumes", "expose", "network"}
    return [
        line.strip()
        for node in walk(root)
        if isinstance(node.command, Command) and len(node.words) > 2 and node.words[1] in around
        for line in node.command.examples.splitlines()
        if line.strip()
    ]
