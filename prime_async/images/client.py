"""`AsyncImageClient`: the images that sandboxes are made from."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio.to_thread

from prime_async.errors import APIError, UsageError
from prime_async.images.building import BUILD_SECONDS, until_built
from prime_async.images.context import BuildContext, packed
from prime_async.images.models import (
    BuildImageResponse,
    BulkBuildImageResponse,
    ImageBuild,
    ImageListItem,
    ImageListResponse,
    UpdateImagesResponse,
)
from prime_async.images.requests import BuildImageRequest, UpdateImagesRequest
from prime_async.images.uploading import upload_context
from prime_async.requests import PageClock, check_range, read_record, send_about
from prime_async.resources import AsyncResourceClient
from prime_async.transport import check_timeout, deadline, path_segment

__all__ = ["AsyncImageClient"]

MAX_LIMIT = 250
_SETTLE_SECONDS = 10.0
_NOT_BEGUN = ("PENDING", "UPLOADING")


class AsyncImageClient(AsyncResourceClient):
    """Client of the images API: build images, find them, change their names and owners.

    Args:
        api_client, api_key, base_url, team_id, context, timeout: see
            :class:`AsyncResourceClient`.

    Raises:
        ConfigError, UsageError: see :class:`AsyncResourceClient`.
    """

    async def list(
        self,
        *,
        team_id: str | None = None,
        search: str | None = None,
        platform: bool = False,
        offset: int = 0,
        limit: int = 100,
        timeout: float | None = None,
    ) -> ImageListResponse:
        """Return one page of images; an image that has several forms has a row for each.

        Args:
            team_id: those of this team; default is the client's, "" the account itself.
            search: only those whose name has this in it.
            platform: those of the platform, which everybody may use; without `team_id`.
            offset: how many images to leave out at the beginning.
            limit: images of one page, 1 to 250.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: an argument is out of range, or `team_id` is given with `platform`.
        """
        check_range("offset", offset, 0)
        check_range("limit", limit, 1, MAX_LIMIT)
        if platform and team_id is not None:
            raise UsageError("images of the platform belong to no team", field="team_id")
        team = self._api.team_id if team_id is None else team_id
        params: dict[str, Any] = {
            "offset": offset,
            "limit": limit,
            "search": search,
            "ownerScope": "platform" if platform else None,
            "teamId": None if platform else team or None,
        }
        transport = await self._api.connect()
        response = await transport.request("GET", "/images", params=params, timeout=timeout)
        return read_record(response, ImageListResponse)

    async def iter(
        self,
        *,
        team_id: str | None = None,
        search: str | None = None,
        platform: bool = False,
        page_size: int = 100,
        timeout: float | None = None,
    ) -> AsyncIterator[ImageListItem]:
        """Yield every row of images, reading page by page; arguments as :meth:`list`.

        Args:
            page_size: rows per request.
            timeout: seconds for all of it, the caller's own work in between included; default
                86,400 (a day), and 60 for each page.

        Raises:
            UsageError: as :meth:`list`.
            APITimeoutError: it took too long.
        """
        offset, clock = 0, PageClock(timeout)
        while True:
            found = await self.list(
                team_id=team_id,
                search=search,
                platform=platform,
                offset=offset,
                limit=page_size,
                timeout=clock.next(),
            )
            for row in found.data:
                yield row
            offset += page_size
            full = len(found.data) >= page_size
            if not found.data or (
                not full if found.total_count is None else offset >= found.total_count
            ):
                return

    async def initiate_build(
        self, request: BuildImageRequest, *, timeout: float | None = None
    ) -> BuildImageResponse | BulkBuildImageResponse:
        """Begin a build; :meth:`build_image` does all of it.

        From a Dockerfile, the context goes to ``upload_url`` next, and :meth:`start_build` follows.
        From several images of registries, what became of each is in ``results``.

        Args:
            request: what is built.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: a rule is broken; before anything is sent.
            APIError: the platform refuses it; ``.ambiguous`` when it may have begun.
            ProtocolError: the platform names no place for the context.
        """
        if not isinstance(request, BuildImageRequest):
            raise UsageError(
                f"request is a {type(request).__name__}, not a BuildImageRequest", field="request"
            )
        request.check()
        transport = await self._api.connect()
        response = await transport.request(
            "POST", "/images/build", json=request.to_wire(), timeout=timeout
        )
        if "results" in response.json():
            return read_record(response, BulkBuildImageResponse)
        build = read_record(response, BuildImageResponse)
        if request.source_image is None and (not build.upload_url or build.expires_in is None):
            raise response.broken("has no upload_url and expires_in")
        return build

    async def transfer_image(
        self,
        source_image: str,
        *,
        image_name: str | None = None,
        image_tag: str | None = None,
        team_id: str | None = None,
        visibility: str | None = None,
        owner_scope: str | None = None,
        platform: str = "linux/amd64",
        timeout: float | None = None,
    ) -> BuildImageResponse | BulkBuildImageResponse:
        """Build from an image of a registry; several with commas. Arguments as
        :class:`BuildImageRequest`, errors as :meth:`initiate_build`.
        """
        request = BuildImageRequest(
            source_image=source_image,
            image_name=image_name,
            image_tag=image_tag,
            team_id=team_id,
            visibility=visibility,
            owner_scope=owner_scope,
            platform=platform,
        )
        return await self.initiate_build(request, timeout=timeout)

    async def start_build(
        self, build_id: str, *, timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Start a build whose context has been uploaded; returns the platform's answer.

        A request with an unknown outcome is not sent again: whether the build goes on is looked up.

        Args:
            build_id: which.
            timeout: seconds in all; default 60, and up to 10 more to look up an unknown outcome.

        Raises:
            NotFoundError: there is no such build.
        """
        path, what = f"{_build_path(build_id)}/start", f"image build {build_id}"
        body = {"context_uploaded": True}
        try:
            response = await send_about(self._api, what, "POST", path, json=body, timeout=timeout)
        except APIError as error:
            if not error.ambiguous:
                raise
            build = await self._looked_up(build_id)
            if build is None or build.status in _NOT_BEGUN:
                raise
            return build
        return response.json()

    async def _looked_up(self, build_id: str) -> ImageBuild | None:
        try:
            return await self.get_build_status(build_id, timeout=_SETTLE_SECONDS)
        except APIError:
            return None  # the first error is the one to be told

    async def get_build_status(self, build_id: str, *, timeout: float | None = None) -> ImageBuild:
        """Return how a build is doing.

        Raises:
            NotFoundError: there is no such build.
        """
        path, what = _build_path(build_id), f"image build {build_id}"
        response = await send_about(self._api, what, "GET", path, timeout=timeout)
        return read_record(response, ImageBuild)

    async def wait_for_build(self, build_id: str, *, timeout: float | None = None) -> ImageBuild:
        """Wait until an image is built.

        Args:
            build_id: which build.
            timeout: seconds in all; default 1800.

        Raises:
            ImageBuildError: it failed or was cancelled.
            APITimeoutError: it took too long; it goes on.
        """
        _build_path(build_id)
        with deadline(check_timeout(timeout, BUILD_SECONDS), f"image build {build_id}"):
            return await until_built(build_id, lambda: self.get_build_status(build_id))
        raise AssertionError("the deadline above returns or raises")

    async def build_image(
        self,
        path: str | os.PathLike[str],
        image_name: str,
        image_tag: str = "latest",
        *,
        dockerfile_path: str = "Dockerfile",
        platform: str = "linux/amd64",
        team_id: str | None = None,
        visibility: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> BuildImageResponse:
        """Build an image from a folder: pack it, upload it, start the build and wait for it.

        What ``.dockerignore`` names stays here. The packed folder takes room in the folder for
        temporary files, not in memory.

        Args:
            path: the build context.
            image_name, image_tag: what the image will be called.
            dockerfile_path: the Dockerfile, in the context.
            platform: ``linux/amd64`` or ``linux/arm64``.
            team_id: whose it is; default is the client's team, "" the account itself.
            visibility: ``PRIVATE`` or ``PUBLIC``; default is the platform's.
            wait: come back when the image is built, or when the build has begun.
            timeout: seconds in all; default 1800.

        Raises:
            UsageError: an argument is wrong, or there is no such folder or Dockerfile; before
                anything is sent.
            OSError: something in it cannot be read; before anything is sent.
            ImageBuildError: the build failed or was cancelled.
            APITimeoutError: it took too long.
            APIError: the platform refuses it.
        """
        team = self._api.team_id if team_id is None else team_id
        request = BuildImageRequest(
            image_name=image_name,
            image_tag=image_tag,
            dockerfile_path=dockerfile_path,
            platform=platform,
            team_id=team or None,
            visibility=visibility,
        )
        seconds = check_timeout(timeout, BUILD_SECONDS)
        with deadline(seconds, f"building {image_name}:{image_tag}"):
            build = await self._begin(request, path, seconds)
            if wait:
                await self.wait_for_build(build.build_id, timeout=seconds)
            return build
        raise AssertionError("the deadline above returns or raises")

    async def update_images(
        self, request: UpdateImagesRequest, *, timeout: float | None = None
    ) -> UpdateImagesResponse:
        """Change names, tags, owners and visibility of images.

        Each change is on its own: those that were refused are in ``results`` with their error.

        Args:
            request: the changes.
            timeout: seconds in all; default 60.

        Raises:
            UsageError: a rule is broken; before anything is sent.
        """
        if not isinstance(request, UpdateImagesRequest):
            raise UsageError(
                f"request is a {type(request).__name__}, not an UpdateImagesRequest",
                field="request",
            )
        request.check()
        transport = await self._api.connect()
        response = await transport.request(
            "PATCH", "/images", json=request.to_wire(), timeout=timeout
        )
        return read_record(response, UpdateImagesResponse)

    async def _begin(
        self, request: BuildImageRequest, path: str | os.PathLike[str], seconds: float
    ) -> BuildImageResponse:
        """Pack, upload and start; everything that can be wrong here is found before the platform
        is asked.
        """
        context = await anyio.to_thread.run_sync(BuildContext, path, request.dockerfile_path)
        async with packed(context) as body:
            build = await self.initiate_build(request)
            assert isinstance(build, BuildImageResponse)
            assert build.upload_url is not None
            await upload_context(build.upload_url, body, seconds)
        await self.start_build(build.build_id)
        return build


def _build_path(build_id: str) -> str:
    return f"/images/build/{path_segment(build_id, 'build_id')}"
