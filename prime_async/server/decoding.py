"""From bytes and query strings to Structs, with FastAPI's way of naming what is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from prime_async.errors import UsageError
from prime_async.server.failures import RequestError, ValidationEntry, invalid

if TYPE_CHECKING:
    from multidict import MultiMapping

__all__ = ["decode_body", "decode_fields", "decode_query"]

Model = TypeVar("Model", bound=msgspec.Struct)

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at (?:`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]+)`")


def decode_body(body: bytes, model: type[Model]) -> Model:
    """Decode a JSON object.

    Raises:
        RequestError: 400 ``invalid_json`` when it is not JSON, 422 when it is not what the model
            says.
    """
    try:
        return msgspec.json.decode(body, type=model)
    except msgspec.ValidationError as error:
        raise _refused(error, "body") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid_json(error) from error


def decode_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a body that :func:`decode_body` accepted, each as the JSON text sent."""
    return msgspec.json.decode(body, type=dict[str, msgspec.Raw])


def decode_query(query: MultiMapping[str], model: type[Model]) -> Model:
    """Decode a query string; unknown names are ignored. Names in the model's ``repeated`` may be
    given several times and become lists.

    Raises:
        RequestError: 422 for a value the model does not allow, or a parameter given twice.
    """
    values: dict[str, str | list[str]] = {}
    repeated: frozenset[str] = getattr(model, "repeated", frozenset())
    for name in model.__struct_fields__:
        given = query.getall(name, [])
        if name in repeated:
            values[name] = given
            continue
        if len(given) > 1:
            raise invalid(["query", name], "may be given once")
        if given:
            values[name] = given[0]
    try:
        decoded = msgspec.convert(values, model, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(error, "query") from error
    for name in values:
        # The text ``null`` was taken for None; a query string has none but by leaving out.
        if getattr(decoded, name) is None:
            raise invalid(["query", name], "must have a value")
    return decoded


def invalid_json(error: Exception) -> RequestError:
    """The 400 for a body that is not JSON."""
    if isinstance(error, RecursionError):
        return RequestError(400, "invalid_json", "the body is nested too deeply")
    return RequestError(400, "invalid_json", f"the body is not valid JSON: {error}")


def _refused(error: msgspec.ValidationError, place: str) -> RequestError:
    if isinstance(error.__cause__, UsageError) and error.__cause__.field is not None:
        # A rule of the model itself, which knows the field's name.
        return invalid([place, *_names(error.__cause__.field)], error.__cause__.message)
    text = str(error)
    match = _PLACE.match(text)
    assert match is not None, "the pattern matches any text"
    what, loc = match["what"], [place, *_steps(match["path"] or "")]
    kind = "value_error"
    missing = _MISSING.match(what)
    if missing:
        loc, kind, what = [*loc, missing["name"]], "missing", "Field required"
    elif what.startswith("Expected `") and ", got " in what:
        kind = "type_error"
    entry = ValidationEntry(loc, what, kind)
    where = ".".join(str(part) for part in loc)
    return RequestError(422, "validation_error", f"{where}: {what}", entries=[entry])


def _names(field: str) -> list[str | int]:
    return _steps(f".{field}")


def _steps(path: str) -> list[str | int]:
    steps: list[Any] = []
    for step in _STEP.finditer(path):
        if step["index"] is not None:
            steps.append(int(step["index"]))
        else:
            steps.append(step["name"] or "...")
    return steps
