"""`AsyncVolumes`: folders that sandboxes share, ``client.volumes``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from prime_async import ids
from prime_async.errors import NotFoundError, UsageError
from prime_async.requests import PageClock, check_range, given, read_record, send_about
from prime_async.sandboxes.checkpoint_models import SandboxCheckpoint, Volume, VolumeListResponse
from prime_async.sandboxes.checkpoints import AsyncSandboxCheckpoints
from prime_async.sandboxes.once import make_once
from prime_async.transport import path_segment

__all__ = ["AsyncVolumes"]

MAX_PAGE = 100


class AsyncVolumes:
    """Folders that sandboxes share: each mounts the version that was published last.

    They are mounted with ``CreateSandboxRequest(volumes=[VolumeMount(...)])``, and what a sandbox
    wrote into one is seen by others when it is published.

    Args:
        parent: the sandboxes client whose connection is used; it is the one that is closed.
    """

    def __init__(self, parent: AsyncSandboxCheckpoints) -> None:
        self._parent = parent
        self._api = parent.api_client

    async def create(
        self, name: str, *, team_id: str | None = None, timeout: float | None = None
    ) -> Volume:
        """Make an empty volume.

        A request with an unknown outcome is not sent again: whether the volume is there now, and
        was not before, is looked up.

        Args:
            name: unique in its account or team.
            team_id: whose it is; default is the client's team, "" the account itself.
            timeout: seconds in all; default 60, and up to 10 more to find out what became of it.

        Raises:
            UsageError: the name is none.
            ConflictError: there is one of this name.
        """
        path_segment(name, "name")
        team = self._team(team_id)
        key = ids.new_id("volume")

        async def send(seconds: float) -> Volume:
            transport = await self._api.connect()
            response = await transport.request(
                "POST",
                "/sandbox/volumes",
                json=given({"name": name, "team_id": team}),
                idempotency_key=key,
                timeout=seconds,
            )
            return read_record(response, Volume)

        async def look(seconds: float) -> dict[str, Volume]:
            try:
                found = await self.get(name, team_id=team or "", timeout=seconds)
            except NotFoundError:
                return {}
            return {found.id: found}

        return await make_once(self._api, send, look, timeout)

    async def get(
        self, name: str, *, team_id: str | None = None, timeout: float | None = None
    ) -> Volume:
        """Return one volume.

        Args:
            name: its name.
            team_id: whose it is; default is the client's team, "" the account itself.
            timeout: seconds in all; default 60.

        Raises:
            NotFoundError: there is none of this name.
        """
        response = await send_about(
            self._api,
            f"volume {name}",
            "GET",
            f"/sandbox/volumes/{path_segment(name, 'name')}",
            params={"team_id": self._team(team_id)},
            timeout=timeout,
        )
        return read_record(response, Volume)

    async def delete(
        self, name: str, *, team_id: str | None = None, timeout: float | None = None
    ) -> None:
        """Delete a volume and all its versions. Arguments as :meth:`get`.

        Raises:
            NotFoundError: there is none of this name.
            ConflictError: sandboxes use it.
            ServerError: its data are still being removed (503); try again later.
        """
        await send_about(
            self._api,
            f"volume {name}",
            "DELETE",
            f"/sandbox/volumes/{path_segment(name, 'name')}",
            params={"team_id": self._team(team_id)},
            timeout=timeout,
        )

    async def list(
        self,
        *,
        team_id: str | None = None,
        page: int = 1,
        per_page: int = 50,
        timeout: float | None = None,
    ) -> VolumeListResponse:
        """Return one page of volumes.

        Args:
            team_id: those of this team; default is the client's, "" the account itself.
            page: from 1.
            per_page: volumes per page, 1 to 100.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: `page` or `per_page` is out of range.
        """
        check_range("page", page, 1)
        check_range("per_page", per_page, 1, MAX_PAGE)
        params: dict[str, Any] = {
            "page": page,
            "per_page": per_page,
            "team_id": self._team(team_id),
        }
        transport = await self._api.connect()
        response = await transport.request(
            "GET", "/sandbox/volumes", params=params, timeout=timeout
        )
        return read_record(response, VolumeListResponse)

    async def iter(
        self,
        *,
        team_id: str | None = None,
        page_size: int = MAX_PAGE,
        timeout: float | None = None,
    ) -> AsyncIterator[Volume]:
        """Yield every volume, reading page by page; arguments as :meth:`list`.

        Args:
            page_size: volumes per request.
            timeout: seconds for all of it, the caller's own work in between included; default
                86,400 (a day), and 60 for each page.

        Raises:
            UsageError: `page_size` is out of range.
            APITimeoutError: it took too long.
        """
        page, clock = 1, PageClock(timeout)
        while True:
            found = await self.list(
                team_id=team_id, page=page, per_page=page_size, timeout=clock.next()
            )
            for volume in found.volumes:
                yield volume
            if not found.has_next or not found.volumes:
                return
            page += 1

    async def publish(
        self,
        sandbox_id: str,
        name: str,
        force: bool = False,
        wait: bool = True,
        *,
        timeout: float | None = None,
    ) -> SandboxCheckpoint:
        """Make what a sandbox has in a volume the version that new sandboxes see.

        A request with an unknown outcome is not sent again: whether the volume has another head
        now is looked up.

        Args:
            sandbox_id: a sandbox that has the volume mounted, and not read-only.
            name: the volume's name.
            force: also when somebody else has published since the sandbox was made.
            wait: come back when the version is durable, which may take 300 seconds.
            timeout: seconds for the request; default 60, and up to 10 more to find out what became
                of it.

        Raises:
            NotFoundError: the volume is not mounted in this sandbox.
            BadRequestError: it is mounted read-only.
            ConflictError: somebody else has published or is doing it; see `force`.
            CheckpointFailedError, APITimeoutError: it did not become durable.
        """
        if not isinstance(force, bool):
            raise UsageError(f"force is {force!r}; it is True or False", field="force")
        sandbox = path_segment(sandbox_id, "sandbox_id")
        path = f"/sandbox/{sandbox}/volumes/{path_segment(name, 'name')}/publish"
        key = ids.new_id("publish")

        async def send(seconds: float) -> SandboxCheckpoint:
            response = await send_about(
                self._api,
                f"volume {name} that sandbox {sandbox_id} may write",
                "POST",
                path,
                json={"force": force},
                idempotency_key=key,
                timeout=seconds,
            )
            return read_record(response, SandboxCheckpoint)

        async def look(seconds: float) -> dict[str, SandboxCheckpoint]:
            try:
                head = (await self.get(name, timeout=seconds)).head_checkpoint_id
                found = None if head is None else await self._parent.get_checkpoint(head)
            except NotFoundError:
                return {}  # the answer to the request itself says what is missing
            return {} if found is None or found.sandbox_id != sandbox_id else {found.id: found}

        made = await make_once(self._api, send, look, timeout)
        return await self._parent.wait_for_checkpoint(made.id) if wait else made

    def _team(self, team_id: str | None) -> str | None:
        return (self._api.team_id if team_id is None else team_id) or None
