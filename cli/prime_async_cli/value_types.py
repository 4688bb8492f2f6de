"""Values that take more than a look: JSON objects, paths, durations."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

from asyncclick import Context, Parameter, ParamType

__all__ = ["Amount", "FilePath", "JsonObject", "Mount", "Real", "Seconds", "Variable"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class JsonObject(ParamType[dict[str, Any]]):
    """A JSON object: typed in, or read from ``@FILE``."""

    name = "json"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        text, source = self._read(str(value), param, ctx)
        try:
            decoded = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        except (ValueError, RecursionError) as error:
            place = (
                f"{source}{error.lineno}:{error.colno}: "
                if isinstance(error, json.JSONDecodeError)
                else source
            )
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            self.fail(f"{place}not JSON: {reason}", param, ctx)
        if not isinstance(decoded, dict):
            from prime_async.evals.lines import json_name

            self.fail(f"a JSON {json_name(decoded)}, not an object such as {{...}}", param, ctx)
        return decoded

    def _read(self, value: str, param: Parameter | None, ctx: Context | None) -> tuple[str, str]:
        if not value.startswith("@"):
            return value, ""
        try:
            return Path(value[1:]).read_text("utf-8-sig"), f"{value[1:]}:"
        except OSError as error:
            self.fail(f"cannot read {value[1:]}: {error.strerror}", param, ctx)
        except UnicodeDecodeError as error:
            self.fail(f"{value[1:]} is not UTF-8: {error.reason}", param, ctx)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is larger than a number can be")
    return number


class FilePath(ParamType[Path]):
    """A path of this machine, there or not; one that is `there` must be."""

    name = "path"

    def __init__(self, *, there: bool = False) -> None:
        self.there = there

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Path:
        if not str(value) or "\0" in str(value):
            self.fail(f"{str(value)!r} is not a path", param, ctx)
        path = Path(value)
        if self.there and not os.path.lexists(path):
            from prime_async.localfiles import nearest_path

            near = nearest_path(path)
            self.fail(
                f"{path} does not exist.{f' Did you mean {near}?' if near else ''}", param, ctx
            )
        return path

    def shell_complete(self, ctx: Context, param: Parameter, incomplete: str) -> list[Any]:
        from asyncclick.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class Real(ParamType[float]):
    """A number, below zero too; NaN and infinity are none."""

    name = "number"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{str(value)[:100]!r} is not a number", param, ctx)
        return number


class Amount(ParamType[float]):
    """So much of something, within bounds; NaN and infinity are none."""

    name = "number"
    _what = "a number"

    def __init__(self, lowest: float, highest: float, *, min_open: bool = False) -> None:
        self.lowest = lowest
        self.highest = highest
        self.min_open = min_open

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        try:
            amount = float(value)
        except (TypeError, ValueError):
            amount = math.nan
        too_low = amount <= self.lowest if self.min_open else amount < self.lowest
        if math.isnan(amount) or too_low or amount > self.highest:
            low, high = (f"{bound:,.10g}" for bound in (self.lowest, self.highest))
            bounds = f"above {low}, at most {high}" if self.min_open else f"from {low} to {high}"
            self.fail(f"{str(value)[:100]!r} is not {self._what} {bounds}", param, ctx)
        return amount


class Seconds(Amount):
    """A duration within bounds; NaN and infinity are none."""

    name = "seconds"
    _what = "a number of seconds"


class Variable(ParamType[tuple[str, str]]):
    """``NAME=VALUE`` for an environment; ``NAME`` alone takes the value it has here."""

    name = "variable"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, given, content = str(value).partition("=")
        if not _NAME.fullmatch(name):
            # What stands there may be a secret without its name: it is not repeated.
            self.fail("it begins with no name: NAME=VALUE, or NAME alone", param, ctx)
        if not given:
            content = os.environ.get(name, "")
            if name not in os.environ:
                self.fail(f"{name} has no value here; give one with {name}=VALUE", param, ctx)
        if "\0" in content or not _is_text(content):
            self.fail(f"the value of {name} is not text", param, ctx)
        return name, content


class Mount(ParamType[tuple[str, str, bool]]):
    """``NAME:/PATH`` for a volume, with ``:ro`` behind it to read only."""

    name = "volume"

    def convert(
        self, value: Any, param: Parameter | None, ctx: Context | None
    ) -> tuple[str, str, bool]:
        if isinstance(value, tuple):
            return value
        name, _, rest = str(value).partition(":")
        path, _, mode = rest.partition(":")
        if not name or not path.startswith("/") or mode not in ("", "ro", "rw"):
            self.fail(f"{value!r} is not NAME:/PATH or NAME:/PATH:ro", param, ctx)
        return name, path, mode == "ro"


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)
