"""Images: the client, what is asked for, and what comes back."""

from typing import TYPE_CHECKING

from prime_async._lazy import lazy_exports

if TYPE_CHECKING:
    from prime_async.images.client import (
        AsyncImageClient as AsyncImageClient,
    )
    from prime_async.images.models import (
        BuildImageResponse as BuildImageResponse,
    )
    from prime_async.images.models import (
        BulkBuildImageResponse as BulkBuildImageResponse,
    )
    from prime_async.images.models import (
        ImageArtifactType as ImageArtifactType,
    )
    from prime_async.images.models import (
        ImageBuild as ImageBuild,
    )
    from prime_async.images.models import (
        ImageBuildStatus as ImageBuildStatus,
    )
    from prime_async.images.models import (
        ImageCoordinateState as ImageCoordinateState,
    )
    from prime_async.images.models import (
        ImageListItem as ImageListItem,
    )
    from prime_async.images.models import (
        ImageListResponse as ImageListResponse,
    )
    from prime_async.images.models import (
        ImageMutationError as ImageMutationError,
    )
    from prime_async.images.models import (
        ImageOwner as ImageOwner,
    )
    from prime_async.images.models import (
        ImageOwnerType as ImageOwnerType,
    )
    from prime_async.images.models import (
        ImageUpdateResult as ImageUpdateResult,
    )
    from prime_async.images.models import (
        ImageVisibility as ImageVisibility,
    )
    from prime_async.images.models import (
        PersonalImageOwner as PersonalImageOwner,
    )
    from prime_async.images.models import (
        PlatformImageOwner as PlatformImageOwner,
    )
    from prime_async.images.models import (
        SourceImageBuildResult as SourceImageBuildResult,
    )
    from prime_async.images.models import (
        TeamImageOwner as TeamImageOwner,
    )
    from prime_async.images.models import (
        UpdateImagesResponse as UpdateImagesResponse,
    )
    from prime_async.images.requests import (
        BuildImageRequest as BuildImageRequest,
    )
    from prime_async.images.requests import (
        ImageUpdateItem as ImageUpdateItem,
    )
    from prime_async.images.requests import (
        ImageUpdatePatch as ImageUpdatePatch,
    )
    from prime_async.images.requests import (
        ImageUpdateSource as ImageUpdateSource,
    )
    from prime_async.images.requests import (
        UpdateImagesRequest as UpdateImagesRequest,
    )

__all__ = [
    "AsyncImageClient",
    "BuildImageRequest",
    "BuildImageResponse",
    "BulkBuildImageResponse",
    "ImageArtifactType",
    "ImageBuild",
    "ImageBuildStatus",
    "ImageCoordinateState",
    "ImageListItem",
    "ImageListResponse",
    "ImageMutationError",
    "ImageOwner",
    "ImageOwnerType",
    "ImageUpdateItem",
    "ImageUpdatePatch",
    "ImageUpdateResult",
    "ImageUpdateSource",
    "ImageVisibility",
    "PersonalImageOwner",
    "PlatformImageOwner",
    "SourceImageBuildResult",
    "TeamImageOwner",
    "UpdateImagesRequest",
    "UpdateImagesResponse",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AsyncImageClient": "prime_async.images.client",
        "BuildImageRequest": "prime_async.images.requests",
        "BuildImageResponse": "prime_async.images.models",
        "BulkBuildImageResponse": "prime_async.images.models",
        "ImageArtifactType": "prime_async.images.models",
        "ImageBuild": "prime_async.images.models",
        "ImageBuildStatus": "prime_async.images.models",
        "ImageCoordinateState": "prime_async.images.models",
        "ImageListItem": "prime_async.images.models",
        "ImageListResponse": "prime_async.images.models",
        "ImageMutationError": "prime_async.images.models",
        "ImageOwner": "prime_async.images.models",
        "ImageOwnerType": "prime_async.images.models",
        "ImageUpdateItem": "prime_async.images.requests",
        "ImageUpdatePatch": "prime_async.images.requests",
        "ImageUpdateResult": "prime_async.images.models",
        "ImageUpdateSource": "prime_async.images.requests",
        "ImageVisibility": "prime_async.images.models",
        "PersonalImageOwner": "prime_async.images.models",
        "PlatformImageOwner": "prime_async.images.models",
        "SourceImageBuildResult": "prime_async.images.models",
        "TeamImageOwner": "prime_async.images.models",
        "UpdateImagesRequest": "prime_async.images.requests",
        "UpdateImagesResponse": "prime_async.images.models",
    },
)
