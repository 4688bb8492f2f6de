"""A double of the parts of the platform that an embedded one may lack: checkpoints, volumes,
networks, exposed ports, SSH sessions, image builds. Strict: unknown routes are 404, and a body
that is not exactly what the wire knows is 422.

    async with ExtrasDouble(tmp_path) as double:
        client = AsyncSandboxClient(api_key="k", base_url=double.url)

Faults are those of :class:`~tests.sandbox_double.SandboxDouble`.
"""

from __future__ import annotations

import io
import itertools
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.sandbox_double import SandboxDouble

__all__ = ["ExtrasDouble"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MOMENT = "2030-01-01T00:00:00Z"


def refuse(status: int, detail: Any) -> web.HTTPException:
    """Answer with an error of this wire."""
    kinds = {400: web.HTTPBadRequest, 404: web.HTTPNotFound, 409: web.HTTPConflict}
    kind = kinds.get(status, web.HTTPUnprocessableEntity)
    return kind(text=f'{{"detail": "{detail}"}}', content_type="application/json")


async def body_of(request: web.Request, *needed: str, **optional: Any) -> dict[str, Any]:
    """Read a body that has these keys, may have those, and no others.

    Args:
        optional: key to its default.
    """
    wire = await request.json() if await request.read() else {}
    if set(needed) - set(wire) or set(wire) - set(needed) - set(optional):
        raise refuse(422, f"keys {sorted(wire)}")
    return {**optional, **wire}


async def no_body(request: web.Request) -> None:
    """Make sure that there is none."""
    if await request.read():
        raise refuse(422, "a body")


class ExtrasDouble(SandboxDouble):
    """The double.

    Attributes:
        checkpoints, volumes, networks, exposures, sessions, builds, images: the records by id.
        durable_after: looks until a checkpoint is durable.
        sync_after: looks until a network reaches a new member.
        ignores_rules: it drops the rules of a new network, as older platforms do.
        end_states: state a checkpoint ends in, by the sandbox it was made of.
        uploads: build id to the names and contents of its context.
        build_states: what a build goes through, one look each.
        batch_checkpoints: False makes the batch look-up 405.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.checkpoints: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        self.networks: dict[str, dict[str, Any]] = {}
        self.exposures: dict[str, dict[str, Any]] = {}
        self.sessions: dict[str, dict[str, Any]] = {}
        self.builds: dict[str, dict[str, Any]] = {}
        self.images: list[dict[str, Any]] = []
        self.uploads: dict[str, dict[str, bytes]] = {}
        self.end_states: dict[str, str] = {}
        self.build_states = ["BUILDING", "COMPLETED"]
        self.durable_after = 1
        self.sync_after = 1
        self.ignores_rules = False
        self.batch_checkpoints = True
        self._numbers = itertools.count(1)

    def routes(self) -> list[web.RouteDef]:
        api, one = "/api/v1/sandbox", "/api/v1/sandbox/{id}"
        lan, images = f"{api}/networks", "/api/v1/images"
        build = f"{images}/build"
        return [
            web.post(f"{api}/checkpoints:batchGet", self._checkpoints_batch),
            web.get(f"{api}/checkpoints/{{checkpoint}}", self._checkpoint),
            web.delete(f"{api}/checkpoints/{{checkpoint}}", self._delete_checkpoint),
            web.post(f"{one}/checkpoints", self._make_checkpoint),
            web.get(f"{one}/checkpoints", self._list_checkpoints),
            web.delete(f"{one}/checkpoints", self._delete_checkpoints),
            web.post(f"{api}/volumes", self._make_volume),
            web.get(f"{api}/volumes", self._list_volumes),
            web.get(f"{api}/volumes/{{name}}", self._volume),
            web.delete(f"{api}/volumes/{{name}}", self._delete_volume),
            web.post(f"{one}/volumes/{{name}}/publish", self._publish),
            web.get(f"{api}/expose/all", self._all_exposures),
            web.post(f"{one}/expose", self._expose),
            web.get(f"{one}/expose", self._exposures),
            web.delete(f"{one}/expose/{{exposure}}", self._unexpose),
            web.get(f"{one}/egress-policy", self._policy),
            web.put(f"{one}/egress-policy", self._set_policy),
            web.post(lan, self._make_network),
            web.get(lan, self._list_networks),
            web.get(f"{lan}/{{network}}", self._network),
            web.delete(f"{lan}/{{network}}", self._delete_network),
            web.put(f"{lan}/{{network}}/rules", self._rules),
            web.put(f"{lan}/{{network}}/members/{{id}}", self._member),
            web.delete(f"{lan}/{{network}}/members/{{id}}", self._leave),
            web.post(f"{one}/ssh-session", self._ssh),
            web.delete(f"{one}/ssh-session/{{session}}", self._close_ssh),
            web.get(images, self._list_images),
            web.patch(images, self._update_images),
            web.post(build, self._build),
            web.get(f"{build}/{{build}}", self._build_status),
            web.post(f"{build}/{{build}}/start", self._start_build),
            web.put("/storage/{build}", self._upload_context),
        ]

    def _next(self, kind: str) -> str:
        return f"{kind}_{next(self._numbers)}"

    # Checkpoints.

    async def _make_checkpoint(self, request: web.Request) -> web.Response:
        await no_body(request)
        return web.json_response(self._new_checkpoint(self._find(request)["id"]))

    def _new_checkpoint(self, sandbox_id: str) -> dict[str, Any]:
        record = {
            "id": self._next("ckpt"),
            "sandbox_id": sandbox_id,
            "state": "PENDING",
            "depth": 0,
            "docker_image": "python:3.11",
            "created_at": MOMENT,
            "updated_at": MOMENT,
            "looks": self.durable_after,
        }
        self.checkpoints[str(record["id"])] = record
        return record

    def _looked_at(self, record: dict[str, Any]) -> dict[str, Any]:
        record["looks"] -= 1
        if record["state"] == "PENDING" and record["looks"] <= 0:
            record["state"] = self.end_states.get(record["sandbox_id"], "DURABLE")
            record["error"] = "disk full" if record["state"] == "FAILED" else None
        return record

    def _known(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] | None = getattr(self, kind).get(name)
        if found is None:
            raise refuse(404, f"no {kind} {name}")
        return found

    async def _checkpoint(self, request: web.Request) -> web.Response:
        record = self._known("checkpoints", request.match_info["checkpoint"])
        return web.json_response(self._looked_at(record))

    async def _list_checkpoints(self, request: web.Request) -> web.Response:
        box = self._find(request)["id"]
        only = request.query.get("checkpoint_id")
        found = [
            each
            for each in self.checkpoints.values()
            if each["sandbox_id"] == box and only in (None, each["id"])
        ]
        return web.json_response({"checkpoints": found})

    async def _delete_checkpoint(self, request: web.Request) -> web.Response:
        record = self._known("checkpoints", request.match_info["checkpoint"])
        if record["state"] == "PENDING":
            raise refuse(409, "it is pending")
        del self.checkpoints[record["id"]]
        return web.Response(status=204)

    async def _delete_checkpoints(self, request: web.Request) -> web.Response:
        await no_body(request)
        box = self._find(request)["id"]
        mine = [each for each in self.checkpoints.values() if each["sandbox_id"] == box]
        pending = [each["id"] for each in mine if each["state"] == "PENDING"]
        deleted = [each["id"] for each in mine if each["id"] not in pending]
        for name in deleted:
            del self.checkpoints[name]
        errors = [
            {"checkpoint_id": name, "code": "CONFLICT", "message": "pending"} for name in pending
        ]
        return web.json_response({"deleted": deleted, "errors": errors})

    async def _checkpoints_batch(self, request: web.Request) -> web.Response:
        if not self.batch_checkpoints:
            raise web.HTTPMethodNotAllowed("POST", [])
        wire = await body_of(request, "checkpoint_ids")
        found, errors = [], []
        for name in wire["checkpoint_ids"]:
            record = self.checkpoints.get(name)
            if record is None:
                errors.append({"checkpoint_id": name, "code": "NOT_FOUND", "message": "none"})
            else:
                found.append(self._looked_at(record))
        return web.json_response({"checkpoints": found, "errors": errors})

    # Volumes.

    async def _make_volume(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "name", team_id=None)
        if wire["name"] in self.volumes:
            raise refuse(409, "there is one")
        record = {"id": self._next("vol"), "created_at": MOMENT, "head_checkpoint_id": None, **wire}
        self.volumes[wire["name"]] = record
        return web.json_response(record)

    async def _list_volumes(self, request: web.Request) -> web.Response:
        page, per_page = int(request.query["page"]), int(request.query["per_page"])
        team = request.query.get("team_id")
        found = [each for each in self.volumes.values() if each["team_id"] == team]
        end = page * per_page
        return web.json_response(
            {
                "volumes": found[end - per_page : end],
                "total": len(found),
                "page": page,
                "per_page": per_page,
                "has_next": end < len(found),
            }
        )

    async def _volume(self, request: web.Request) -> web.Response:
        return web.json_response(self._known("volumes", request.match_info["name"]))

    async def _delete_volume(self, request: web.Request) -> web.Response:
        del self.volumes[self._known("volumes", request.match_info["name"])["name"]]
        return web.json_response({})

    async def _publish(self, request: web.Request) -> web.Response:
        await body_of(request, "force")
        box, volume = self._find(request), self._known("volumes", request.match_info["name"])
        record = self._new_checkpoint(box["id"])
        volume["head_checkpoint_id"] = record["id"]
        return web.json_response(record)

    # Ways in and out.

    async def _expose(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "port", "protocol", name=None)
        exposure = self._next("exp")
        record = {
            "exposure_id": exposure,
            "sandbox_id": self._find(request)["id"],
            "url": f"https://{exposure}.example.com",
            "tls_socket": f"{exposure}.example.com:443",
            **wire,
        }
        self.exposures[exposure] = record
        return web.json_response(record)

    async def _exposures(self, request: web.Request) -> web.Response:
        box = self._find(request)["id"]
        found = [each for each in self.exposures.values() if each["sandbox_id"] == box]
        return web.json_response({"exposures": found})

    async def _all_exposures(self, request: web.Request) -> web.Response:
        return web.json_response({"exposures": list(self.exposures.values())})

    async def _unexpose(self, request: web.Request) -> web.Response:
        self._known("exposures", request.match_info["exposure"])
        del self.exposures[request.match_info["exposure"]]
        return web.json_response({})

    async def _policy(self, request: web.Request) -> web.Response:
        box = self._find(request)
        policy = box.get("policy", {"allowlist": None, "denylist": []})
        generation = box.get("generation", 0)
        return web.json_response(
            {
                "policy": policy,
                "generation": generation,
                "applied_generation": generation or -1,
                "applied": bool(generation),
            }
        )

    async def _set_policy(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "allowlist", "denylist")
        if (wire["allowlist"] is None) == (wire["denylist"] is None):
            raise refuse(422, "exactly one list")
        box = self._find(request)
        box["policy"], box["generation"] = wire, box.get("generation", 0) + 1
        return await self._policy(request)

    async def _ssh(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "public_key", ttl_seconds=600)
        name = self._next("ssh")
        record = {
            "session_id": name,
            "sandbox_id": self._find(request)["id"],
            "host": "ssh.example.com",
            "port": 2222,
            "expires_at": MOMENT,
            "ttl_seconds": wire["ttl_seconds"],
        }
        self.sessions[name] = record
        return web.json_response(record)

    async def _close_ssh(self, request: web.Request) -> web.Response:
        self._known("sessions", request.match_info["session"])
        del self.sessions[request.match_info["session"]]
        return web.json_response({})

    # Networks.

    async def _make_network(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "name", team_id=None, rules=[])
        record = {
            "id": self._next("net"),
            "version": 1,
            "synced": True,
            "created_at": MOMENT,
            "members": [],
            **wire,
        }
        if self.ignores_rules:
            record["rules"] = [{"from": "*", "to": "*"}]
        self.networks[str(record["id"])] = record
        return web.json_response(record)

    async def _list_networks(self, request: web.Request) -> web.Response:
        team = request.query.get("team_id")
        found = [each for each in self.networks.values() if each["team_id"] == team]
        return web.json_response({"networks": found})

    async def _network(self, request: web.Request) -> web.Response:
        network = self._known("networks", request.match_info["network"])
        for member in network["members"]:
            member["looks"] -= 1
            member["synced"] = member["looks"] <= 0
        return web.json_response(network)

    async def _delete_network(self, request: web.Request) -> web.Response:
        self._known("networks", request.match_info["network"])
        del self.networks[request.match_info["network"]]
        return web.json_response({})

    async def _rules(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "rules")
        network = self._known("networks", request.match_info["network"])
        network["rules"], network["version"] = wire["rules"], network["version"] + 1
        return web.json_response(network)

    async def _member(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "tags")
        network, box = self._known("networks", request.match_info["network"]), self._find(request)
        self._drop_member(network, box["id"])
        member = {"sandbox_id": box["id"], "synced": False, "looks": self.sync_after, **wire}
        network["members"].append(member)
        return web.json_response(member)

    async def _leave(self, request: web.Request) -> web.Response:
        network = self._known("networks", request.match_info["network"])
        if not self._drop_member(network, request.match_info["id"]):
            raise refuse(404, "no such member")
        return web.json_response({})

    @staticmethod
    def _drop_member(network: dict[str, Any], sandbox_id: str) -> bool:
        before = len(network["members"])
        network["members"] = [
            each for each in network["members"] if each["sandbox_id"] != sandbox_id
        ]
        return len(network["members"]) < before

    # Images.

    async def _list_images(self, request: web.Request) -> web.Response:
        if set(request.query) - {"offset", "limit", "search", "teamId", "ownerScope"}:
            raise refuse(422, "a query that nobody knows")
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        return web.json_response(
            {
                "data": self.images[offset : offset + limit],
                "totalCount": len(self.images),
                "offset": offset,
                "limit": limit,
            }
        )

    async def _build(self, request: web.Request) -> web.Response:
        wire = await body_of(
            request,
            "dockerfile_path",
            "platform",
            image_name=None,
            image_tag=None,
            source_image=None,
            team_id=None,
            visibility=None,
            owner_scope=None,
        )
        sources = (wire["source_image"] or "").split(",")
        if len(sources) > 1:
            results = [{"sourceImage": each, "build": self._new_build(wire)} for each in sources]
            results[-1] = {"sourceImage": sources[-1], "error": "no such image", "retryable": True}
            return web.json_response({"results": results})
        build = self._new_build(wire)
        if wire["source_image"] is None:
            build["upload_url"] = f"{self.url}/storage/{build['build_id']}?sig=s%2Fe+c&x="
            build["expires_in"] = 600
        return web.json_response(build)

    def _new_build(self, wire: dict[str, Any]) -> dict[str, Any]:
        name = self._next("build")
        self.builds[name] = {"status": "PENDING", "asked": wire, "left": list(self.build_states)}
        path = f"registry/{wire['image_name']}:{wire['image_tag']}"
        return {"build_id": name, "buildIds": [name], "fullImagePath": path}

    async def _upload_context(self, request: web.Request) -> web.Response:
        if request.query.get("sig") != "s/e c" or "Authorization" in request.headers:
            return web.Response(status=403, text="SignatureDoesNotMatch")
        if request.content_length is None:
            return web.Response(status=411)
        data = await request.read()
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            contents = {
                each.name: b"" if (part := archive.extractfile(each)) is None else part.read()
                for each in archive.getmembers()
            }
        name = request.match_info["build"]
        self.uploads[name] = contents
        self._known("builds", name)["status"] = "UPLOADING"
        return web.Response(status=200)

    async def _start_build(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "context_uploaded")
        build = self._known("builds", request.match_info["build"])
        if wire["context_uploaded"] is not True or build["status"] != "UPLOADING":
            raise refuse(409, f"it is {build['status']}")
        build["status"] = "BUILDING"
        return web.json_response({"status": "BUILDING"})

    async def _build_status(self, request: web.Request) -> web.Response:
        name = request.match_info["build"]
        build = self._known("builds", name)
        if build["status"] == "BUILDING" and build["left"]:
            build["status"] = build["left"].pop(0)
        failed = "step 2 of the Dockerfile" if build["status"] == "FAILED" else None
        return web.json_response({"id": name, "status": build["status"], "errorMessage": failed})

    async def _update_images(self, request: web.Request) -> web.Response:
        wire = await body_of(request, "mode", "updates", "dryRun")
        results = []
        for update in wire["updates"]:
            after = {"owner": {"type": "personal"}, "name": "n", "tag": "t", **update["set"]}
            if update["source"].get("reference") == "missing:1":
                error = {"code": "NOT_FOUND", "message": "no such image"}
                results.append({"source": update["source"], "success": False, "error": error})
            else:
                results.append({"source": update["source"], "success": True, "after": after})
        success = all(each["success"] for each in results)
        return web.json_response({"success": success, "dryRun": wire["dryRun"], "results": results})
