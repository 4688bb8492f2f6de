"""The images client, through both faces, against a strict double."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from prime_async import (
    APIError,
    APITimeoutError,
    AsyncImageClient,
    BuildImageRequest,
    BuildImageResponse,
    BulkBuildImageResponse,
    ImageBuildError,
    ImageOwner,
    ImageUpdateItem,
    ImageUpdatePatch,
    ImageUpdateSource,
    NotFoundError,
    PersonalImageOwner,
    PlatformImageOwner,
    ProtocolError,
    TeamImageOwner,
    UpdateImagesRequest,
    UsageError,
)
from prime_async.images import building
from prime_async.images.context import BuildContext, packed
from prime_async.images.ignoring import Ignoring
from tests.extras_double import ExtrasDouble
from tests.faces import Face, both_faces

HERE = ImageUpdateSource(reference="mine/n:t")
RENAMED = ImageUpdatePatch(name="n2")


@pytest.fixture
async def double(tmp_path: Path) -> AsyncIterator[ExtrasDouble]:
    """The platform's double."""
    folder = tmp_path / "double"
    folder.mkdir()
    async with ExtrasDouble(folder) as running:
        yield running


@pytest.fixture
async def client(double: ExtrasDouble) -> AsyncIterator[AsyncImageClient]:
    """A client of it."""
    async with AsyncImageClient(api_key="sk-CANARY", base_url=double.url) as made:
        yield made


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds of the double need no patience."""
    monkeypatch.setattr(building, "_FIRST_PAUSE", 0.01)


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A folder to build from: rules, links, a second name, a folder that is left out."""
    root = tmp_path / "context"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "docker").mkdir()
    (root / "docker" / "Dockerfile").write_text("FROM scratch\n")
    (root / ".dockerignore").write_text("# not these\n**/*.log\nsecret\ndocker\n!src/keep.log\n")
    (root / "src" / "main.py").write_text("print(1)\n")
    os.link(root / "src" / "main.py", root / "src" / "same.py")
    (root / "src" / "keep.log").write_text("kept")
    (root / "src" / "deep" / "x.log").write_text("not kept")
    (root / "secret").mkdir()
    (root / "secret" / "key").write_text("CANARY")
    (root / "link").symlink_to("src/main.py")
    return root


@both_faces
async def test_a_folder_becomes_an_image(face: Face, double: ExtrasDouble, context: Path) -> None:
    """Packed, uploaded to the signed address without our key, started, waited for."""
    async with face.AsyncImageClient("key", base_url=double.url, team_id="t1") as client:
        build = await client.build_image(context, "n", "v1", dockerfile_path="docker/Dockerfile")
        assert build.full_image_path == "registry/n:v1"
        assert (await client.get_build_status(build.build_id)).status == "COMPLETED"
    sent = double.requests("POST", "/images/build")[0].json
    assert sent == {
        "image_name": "n",
        "image_tag": "v1",
        "dockerfile_path": "docker/Dockerfile",
        "platform": "linux/amd64",
        "team_id": "t1",
    }
    assert double.uploads[build.build_id] == {
        ".dockerignore": (context / ".dockerignore").read_bytes(),
        "docker/Dockerfile": b"FROM scratch\n",
        "link": b"print(1)\n",
        "src": b"",
        "src/deep": b"",
        "src/keep.log": b"kept",
        "src/main.py": b"print(1)\n",
        "src/same.py": b"print(1)\n",
    }


@both_faces
async def test_lists_are_read_page_by_page(face: Face, double: ExtrasDouble) -> None:
    """Those of the client's team, of none, of the platform; a page, and all of them."""
    double.images = [{"id": f"i{n}", "imageName": f"n{n}", "status": "NEW"} for n in range(5)]
    async with face.AsyncImageClient("key", base_url=double.url, team_id="t1") as client:
        found = await client.list(offset=3, limit=4, search="n")
        assert ([row.id for row in found.data], found.total_count) == (["i3", "i4"], 5)
        assert found.data[0].status == "NEW"
        rows = [row.image_name async for row in client.iter(page_size=2)]
        assert rows == ["n0", "n1", "n2", "n3", "n4"]
        await client.list(platform=True)
        await client.list(team_id="")
    queries = [seen.query for seen in double.requests("GET", "/images")]
    assert queries[0] == {"offset": "3", "limit": "4", "search": "n", "teamId": "t1"}
    assert queries[-2] == {"offset": "0", "limit": "100", "ownerScope": "platform"}
    assert queries[-1] == {"offset": "0", "limit": "100"}


@both_faces
async def test_images_of_registries(face: Face, double: ExtrasDouble) -> None:
    """One source, several, and those of Docker Hub, which are always public."""
    async with face.AsyncImageClient("key", base_url=double.url) as client:
        one = await client.transfer_image("ghcr.io/a/b:1", image_name="b", visibility="PRIVATE")
        assert isinstance(one, BuildImageResponse)
        assert one.build_ids == [one.build_id]
        several = await client.transfer_image("python:3.11, docker.io/library/redis")
        assert isinstance(several, BulkBuildImageResponse)
        assert [each.error for each in several.results] == [None, "no such image"]
        assert several.results[1].retryable
    first, second = (seen.json for seen in double.requests("POST", "/images/build"))
    assert (first["image_name"], first["visibility"]) == ("b", "PRIVATE")
    assert (second["visibility"], second["owner_scope"]) == ("PUBLIC", "platform")
    assert "image_name" not in second


@both_faces
async def test_changes_are_each_on_their_own(face: Face, double: ExtrasDouble) -> None:
    """In camelCase; a change that is refused is in the answer."""
    source = ImageUpdateSource(owner=TeamImageOwner(team_id="t"), name="n", tag="t")
    public = ImageUpdatePatch(owner=PlatformImageOwner(), visibility="PUBLIC")
    request = UpdateImagesRequest(
        updates=[
            ImageUpdateItem(source=source, set=public),
            ImageUpdateItem(source=ImageUpdateSource(reference="missing:1"), set=RENAMED),
        ],
        dry_run=True,
    )
    async with face.AsyncImageClient("key", base_url=double.url) as client:
        outcome = await client.update_images(request)
        assert (outcome.success, outcome.dry_run) == (False, True)
        changed, refused = outcome.results
        assert (changed.success, changed.after.owner.type) == (True, "platform")
        assert (refused.success, refused.error.code) == (False, "NOT_FOUND")
    [sent] = double.requests("PATCH", "/images")
    assert sent.json["updates"][0] == {
        "source": {"owner": {"type": "team", "teamId": "t"}, "name": "n", "tag": "t"},
        "set": {"owner": {"type": "platform"}, "visibility": "PUBLIC"},
    }
    assert sent.json["dryRun"] is True


async def test_a_build_that_fails(
    double: ExtrasDouble, client: AsyncImageClient, context: Path
) -> None:
    """Says how and why; one that takes too long goes on."""
    (context / "Dockerfile").write_text("FROM scratch\n")
    double.build_states = ["BUILDING", "FAILED"]
    with pytest.raises(ImageBuildError, match="ended: FAILED; step 2") as caught:
        await client.build_image(context, "n")
    assert isinstance(caught.value, RuntimeError)
    assert (caught.value.build_id, caught.value.status) == ("build_1", "FAILED")
    double.build_states = []
    build = await client.build_image(context, "n", wait=False)
    with pytest.raises(APITimeoutError, match="image build build_2"):
        await client.wait_for_build(build.build_id, timeout=0.1)
    with pytest.raises(NotFoundError, match="there is no image build build_9"):
        await client.wait_for_build("build_9")


async def test_an_unknown_outcome_is_looked_up(
    double: ExtrasDouble, client: AsyncImageClient, context: Path
) -> None:
    """Starting a build is not repeated; beginning one is not either, and says that it may be."""
    (context / "Dockerfile").write_text("FROM scratch\n")
    double.fault("POST", "/start", does="reset")
    await client.build_image(context, "n")
    assert len(double.requests("POST", "/start")) == 1
    double.fault("POST", "/start", does="cut")
    with pytest.raises(APIError) as caught:
        await client.build_image(context, "n")
    assert caught.value.ambiguous
    double.fault("POST", "/images/build", does="reset")
    with pytest.raises(APIError) as caught:
        await client.transfer_image("ghcr.io/a/b")
    assert caught.value.ambiguous
    assert len(double.builds) == 3


async def test_uploads_go_again_and_show_no_signature(
    double: ExtrasDouble, client: AsyncImageClient, context: Path
) -> None:
    """The same bytes after a fault; an error, a repr, a refusal never hold the query."""
    (context / "Dockerfile").write_text("FROM scratch\n")
    double.fault("PUT", "/storage/build_1", does="cut")
    await client.build_image(context, "n")
    assert len(double.requests("PUT", "/storage/build_1")) == 2
    double.fault("PUT", "/storage/.*", status=403)
    with pytest.raises(APIError) as caught:
        await client.build_image(context, "n")
    begun = await client.initiate_build(BuildImageRequest(image_name="n"))
    for text in (str(caught.value), repr(caught.value.url), repr(begun)):
        assert "sig" not in text
    assert isinstance(begun, BuildImageResponse)
    assert begun.upload_url is not None


async def test_a_platform_that_names_no_place(
    double: ExtrasDouble, client: AsyncImageClient, context: Path
) -> None:
    """No address, or one that is none: an answer that breaks the wire."""
    (context / "Dockerfile").write_text("FROM scratch\n")
    double.fault("POST", "/build", status=200, json={"build_id": "b", "fullImagePath": "p"})
    with pytest.raises(ProtocolError, match="no upload_url and expires_in"):
        await client.initiate_build(BuildImageRequest(image_name="n"))
    answer = {"build_id": "b", "upload_url": "file:///etc/passwd", "expires_in": 1}
    double.fault("POST", "/build", status=200, json=answer)
    with pytest.raises(ProtocolError, match="no address to upload"):
        await client.build_image(context, "n")


async def test_packing_ends_when_its_caller_does(
    double: ExtrasDouble, client: AsyncImageClient, tmp_path: Path
) -> None:
    """A large file is not packed to its end first."""
    root = tmp_path / "large"
    root.mkdir()
    (root / "Dockerfile").write_text("FROM scratch\n")
    with (root / "zeros").open("wb") as file:
        file.truncate(8 * 2**30)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await client.build_image(root, "n")
    assert double.seen == []


@pytest.mark.parametrize(
    ("rules", "out", "stays"),
    [
        (["*.py"], ["a.py"], ["b/a.py", "a.pyc"]),
        (["**/*.py"], ["a.py", "b/c/a.py"], ["a.pyc"]),
        (["b"], ["b", "b/c/d"], ["c/b", "bb"]),
        (["/b/"], ["b", "b/c"], ["c/b"]),
        (["b/*", "!b/c"], ["b/a"], ["b", "b/c", "b/c/d"]),
        (["**", "!a", "a/b"], ["x", "a/b"], ["a", "a/c"]),
        (["a?c", "[x-z]1"], ["abc", "y1"], ["a/c", "w1"]),
        (["# a", "", "  ", "\\#b"], ["#b"], ["a", "# a"]),
        (["a/**/b"], ["a/b", "a/x/y/b"], ["a/xb"]),
    ],
)
def test_what_a_dockerignore_leaves_out(rules: list[str], out: list[str], stays: list[str]) -> None:
    """The last rule that matches a path, or a folder above it, decides."""
    ignoring = Ignoring(rules)
    assert [path for path in out + stays if ignoring.leaves_out(path)] == out


@pytest.mark.parametrize(
    ("path", "options", "field"),
    [
        ("missing", {}, "path"),
        (".dockerignore", {}, "path"),
        ("", {"dockerfile_path": "nothing"}, "dockerfile_path"),
        ("", {"dockerfile_path": "../Dockerfile"}, "dockerfile_path"),
        ("", {"dockerfile_path": ""}, "dockerfile_path"),
        ("", {"image_name": ""}, "image_name"),
        ("", {"image_tag": " "}, "image_tag"),
        ("", {"platform": "windows"}, "platform"),
        ("", {"visibility": "SECRET"}, "visibility"),
        ("", {"timeout": 0}, "timeout"),
    ],
)
async def test_wrong_builds_send_nothing(
    double: ExtrasDouble,
    client: AsyncImageClient,
    context: Path,
    path: str,
    options: dict[str, Any],
    field: str,
) -> None:
    """Found here, before the platform is asked."""
    (context / "Dockerfile").write_text("FROM scratch\n")
    (context.parent / "Dockerfile").write_text("FROM scratch\n")
    with pytest.raises(UsageError) as caught:
        await client.build_image(context / path, **{"image_name": "n", **options})
    assert caught.value.field == field
    assert double.seen == []


@pytest.mark.parametrize(
    ("wishes", "field"),
    [
        ({"source_image": ""}, "source_image"),
        ({"source_image": ","}, "source_image"),
        ({"source_image": 7}, "source_image"),
        ({"source_image": "python", "image_name": "n"}, "image_name"),
        ({"source_image": "a/b", "image_tag": "t"}, "image_tag"),
        ({"source_image": "Docker.io/a/b@sha256:0", "team_id": "t"}, "team_id"),
        ({"source_image": "index.docker.io/a/b", "visibility": "PRIVATE"}, "visibility"),
        ({"source_image": "python,ghcr.io/a/b"}, "source_image"),
        ({"owner_scope": "everybody"}, "owner_scope"),
        ({"owner_scope": "platform", "visibility": "PRIVATE"}, "visibility"),
        ({"platform": None}, "platform"),
    ],
)
def test_wrong_requests(wishes: dict[str, Any], field: str) -> None:
    """Found when they are made."""
    with pytest.raises(UsageError) as caught:
        BuildImageRequest(**wishes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "source", ["ghcr.io/a/b", "localhost/a", "localhost:5000/a", "a.b:1/c/d:2@sha256:0"]
)
def test_registries_that_are_not_docker_hub(source: str) -> None:
    """Names, teams and privacy are one's own there."""
    request = BuildImageRequest(source_image=source, image_name="n", visibility="PRIVATE")
    assert (request.visibility, request.owner_scope) == ("PRIVATE", None)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ImageUpdateSource(), "source.owner"),
        (lambda: ImageUpdateSource(owner=PersonalImageOwner(), tag="t"), "source.name"),
        (lambda: ImageUpdateSource(reference="r", name="n"), "source.name"),
        (lambda: ImageUpdateSource(reference=" "), "source.reference"),
        (lambda: ImageUpdatePatch(), "set"),
        (lambda: ImageUpdatePatch(visibility="SECRET"), "set.visibility"),
        (lambda: ImageUpdatePatch(name=""), "set.name"),
        (lambda: ImageUpdatePatch(owner="me"), "set.owner"),  # type: ignore[arg-type]  # that is it
        (lambda: ImageUpdatePatch(owner=TeamImageOwner()), "set.owner.team_id"),
        (lambda: ImageUpdatePatch(owner=ImageOwner(type="friend")), "set.owner.type"),
        (
            lambda: ImageUpdatePatch(owner=PlatformImageOwner(), visibility="PRIVATE"),
            "set.visibility",
        ),
        (lambda: UpdateImagesRequest(updates=[]), "updates"),
        (lambda: UpdateImagesRequest(updates=[{}]), "updates[0]"),  # type: ignore[list-item]  # that is it
        (
            lambda: UpdateImagesRequest(updates=[ImageUpdateItem(source=HERE, set=RENAMED)] * 101),
            "updates",
        ),
    ],
)
def test_wrong_changes(make: Any, field: str) -> None:
    """Found when they are made, and again when they are sent."""
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("call", "arguments", "options", "field"),
    [
        ("list", [], {"offset": -1}, "offset"),
        ("list", [], {"limit": 0}, "limit"),
        ("list", [], {"limit": 251}, "limit"),
        ("list", [], {"platform": True, "team_id": ""}, "team_id"),
        ("initiate_build", [{}], {}, "request"),
        ("update_images", [[]], {}, "request"),
        ("start_build", [""], {}, "build_id"),
        ("get_build_status", ["a/b"], {}, "build_id"),
        ("wait_for_build", ["b"], {"timeout": -1}, "timeout"),
    ],
)
async def test_bad_arguments_send_nothing(
    double: ExtrasDouble,
    client: AsyncImageClient,
    call: str,
    arguments: list[Any],
    options: dict[str, Any],
    field: str,
) -> None:
    """Refused by name, before anything is sent."""
    with pytest.raises(UsageError) as caught:
        await getattr(client, call)(*arguments, **options)
    assert caught.value.field == field
    assert double.seen == []


async def test_a_request_is_checked_again_when_it_is_sent(
    double: ExtrasDouble, client: AsyncImageClient
) -> None:
    """Requests can be changed after they were made."""
    request = UpdateImagesRequest(updates=[ImageUpdateItem(source=HERE, set=RENAMED)])
    request.updates[0].set = ImageUpdatePatch(tag="t")
    request.updates[0].set.tag = ""
    with pytest.raises(UsageError) as caught:
        await client.update_images(request)
    assert caught.value.field == "updates[0].set.tag"
    assert double.seen == []


async def test_packed_folders_carry_no_names_of_this_machine(context: Path) -> None:
    """Neither users nor groups."""
    (context / "Dockerfile").write_text("FROM scratch\n")
    async with packed(BuildContext(context, "Dockerfile")) as body:
        data = b"".join([piece async for piece in body.stream()])
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        owners = {(each.uid, each.gid, each.uname, each.gname) for each in archive}
    assert owners == {(0, 0, "", "")}
