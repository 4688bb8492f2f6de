"""What the images API is asked for, checked before anything is sent."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from prime_async.errors import UsageError
from prime_async.images.models import ImageOwner, ImageVisibility
from prime_async.images.references import is_docker_hub, sources_of

__all__ = [
    "BuildImageRequest",
    "ImageUpdateItem",
    "ImageUpdatePatch",
    "ImageUpdateSource",
    "MAX_IMAGE_UPDATES",
    "UpdateImagesRequest",
]

MAX_IMAGE_UPDATES = 100
"""Images that one request may change."""

_PLATFORMS = ("linux/amd64", "linux/arm64")
_VISIBILITIES = ("PRIVATE", "PUBLIC")


class BuildImageRequest(msgspec.Struct, kw_only=True):
    """An image to be built, from a Dockerfile or from an image of a registry.

    Images of Docker Hub always become public images of the platform: no name, tag or team of
    one's own.

    Args:
        image_name, image_tag: what it will be called.
        dockerfile_path: the Dockerfile in the build context.
        source_image: an image of a registry in place of a Dockerfile; several with commas.
        platform: ``linux/amd64`` or ``linux/arm64``.
        team_id: the team it belongs to.
        visibility: ``PRIVATE`` or ``PUBLIC``; default is the platform's.
        owner_scope: ``platform``, or None for the account or team.

    Raises:
        UsageError: a rule is broken; ``.field`` names the argument.
    """

    image_name: str | None = None
    image_tag: str | None = None
    dockerfile_path: str = "Dockerfile"
    source_image: str | None = None
    platform: str = "linux/amd64"
    team_id: str | None = None
    visibility: str | None = None
    owner_scope: str | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Check every rule, and make an image of Docker Hub public.

        Raises:
            UsageError: a rule is broken.
        """
        for name in ("image_name", "image_tag", "source_image", "team_id"):
            _check_text(name, getattr(self, name))
        _check_text("dockerfile_path", self.dockerfile_path, needed=True)
        _check_choice("platform", self.platform, _PLATFORMS)
        _check_choice("visibility", self.visibility, (None, *_VISIBILITIES))
        _check_choice("owner_scope", self.owner_scope, (None, "platform"))
        if self.owner_scope == "platform" and self.visibility == ImageVisibility.PRIVATE:
            raise UsageError("images of the platform are public", field="visibility")
        if self.source_image is not None:
            self._check_sources(sources_of(self.source_image))

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object of the wire: what is not set is left out."""
        wire: dict[str, Any] = msgspec.to_builtins(self)
        return {key: value for key, value in wire.items() if value is not None}

    def _check_sources(self, sources: list[str]) -> None:
        if not sources:
            raise UsageError("source_image names no image", field="source_image")
        from_hub = [source for source in sources if is_docker_hub(source)]
        if not from_hub:
            return
        if len(from_hub) < len(sources):
            raise UsageError(
                "images of Docker Hub and of other registries do not go in one request",
                field="source_image",
            )
        for name in ("image_name", "image_tag", "team_id"):
            if getattr(self, name) is not None:
                raise UsageError(f"images of Docker Hub keep their name: no {name}", field=name)
        if self.visibility == ImageVisibility.PRIVATE:
            raise UsageError("images of Docker Hub are public", field="visibility")
        self.visibility, self.owner_scope = ImageVisibility.PUBLIC.value, "platform"


class ImageUpdateSource(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which image is changed: `owner`, `name` and `tag`, or a `reference` in place of them.

    Raises:
        UsageError: neither, or both.
    """

    owner: ImageOwner | None = None
    name: str | None = None
    tag: str | None = None
    reference: str | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self, field: str = "source") -> None:
        """Check the rules; errors name the place below `field`."""
        parts = {name: getattr(self, name) for name in ("owner", "name", "tag")}
        for name, value in parts.items():
            if self.reference is not None and value is not None:
                raise UsageError(
                    f"{field} has a reference and {name}; one form is needed",
                    field=f"{field}.{name}",
                )
            if self.reference is None and value is None:
                raise UsageError(
                    f"{field} has no {name}",
                    field=f"{field}.{name}",
                    hint="owner, name and tag, or a reference",
                )
        for name in ("name", "tag", "reference"):
            _check_text(f"{field}.{name}", getattr(self, name))
        _check_owner(f"{field}.owner", self.owner)


class ImageUpdatePatch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What becomes of an image; what is not set stays as it is.

    Raises:
        UsageError: nothing changes, or an image of the platform would be private.
    """

    name: str | None = None
    tag: str | None = None
    owner: ImageOwner | None = None
    visibility: str | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self, field: str = "set") -> None:
        """Check the rules; errors name the place below `field`."""
        if all(getattr(self, name) is None for name in self.__struct_fields__):
            raise UsageError(f"{field} changes nothing", field=field)
        for name in ("name", "tag"):
            _check_text(f"{field}.{name}", getattr(self, name))
        _check_owner(f"{field}.owner", self.owner)
        _check_choice(f"{field}.visibility", self.visibility, (None, *_VISIBILITIES))
        to_platform = self.owner is not None and self.owner.type == "platform"
        if to_platform and self.visibility == ImageVisibility.PRIVATE:
            raise UsageError("images of the platform are public", field=f"{field}.visibility")


class ImageUpdateItem(msgspec.Struct, kw_only=True):
    """One change: which image, and what becomes of it."""

    source: ImageUpdateSource
    set: ImageUpdatePatch


class UpdateImagesRequest(msgspec.Struct, kw_only=True, rename="camel"):
    """Changes to images, each on its own.

    Args:
        updates: 1 to 100 of them.
        dry_run: say what would become of them, and change nothing.

    Raises:
        UsageError: a rule is broken; ``.field`` says where.
    """

    updates: list[ImageUpdateItem]
    dry_run: bool = False
    mode: Literal["explicit"] = "explicit"

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Check every rule.

        Raises:
            UsageError: a rule is broken.
        """
        if not isinstance(self.updates, list):
            raise UsageError("updates is not a list", field="updates")
        if not 1 <= len(self.updates) <= MAX_IMAGE_UPDATES:
            raise UsageError(
                f"updates has {len(self.updates)} entries; 1 to {MAX_IMAGE_UPDATES} are allowed",
                field="updates",
            )
        for index, item in enumerate(self.updates):
            if not isinstance(item, ImageUpdateItem):
                raise UsageError(
                    f"updates[{index}] is a {type(item).__name__}, not an ImageUpdateItem",
                    field=f"updates[{index}]",
                )
            item.source.check(f"updates[{index}].source")
            item.set.check(f"updates[{index}].set")
        _check_choice("mode", self.mode, ("explicit",))

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object of the wire: what is not set is left out."""
        wire: dict[str, Any] = _without_none(msgspec.to_builtins(self))
        return wire


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(part) for key, part in value.items() if part is not None}
    return [_without_none(part) for part in value] if isinstance(value, list) else value


def _check_text(field: str, value: object, *, needed: bool = False) -> None:
    if value is None and not needed:
        return
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise UsageError(f"{field} is empty or not text", field=field)


def _check_choice(field: str, value: object, known: tuple[str | None, ...]) -> None:
    if value not in known:
        words = " or ".join(str(word) for word in known if word is not None)
        raise UsageError(f"{field} is {value!r}; it is {words}", field=field)


def _check_owner(field: str, owner: object) -> None:
    if owner is None:
        return
    if not isinstance(owner, ImageOwner):
        raise UsageError(
            f"{field} is a {type(owner).__name__}",
            field=field,
            hint="PersonalImageOwner(), TeamImageOwner(team_id=...) or PlatformImageOwner()",
        )
    _check_choice(f"{field}.type", owner.type, ("personal", "team", "platform"))
    if (owner.type == "team") != (owner.team_id is not None):
        what = "needs a team_id" if owner.type == "team" else "has no team_id"
        raise UsageError(f"{field} is {owner.type} and {what}", field=f"{field}.team_id")
