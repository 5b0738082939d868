"""Arguments as JSON, and JSON as results."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import os
import types
import typing
from datetime import datetime
from typing import Any

from .api import ERRORS, OPERATIONS, AmberfsError, FailedError


def encode(op: str, args: dict[str, Any], root: os.PathLike[str]) -> bytes:
    """A request. Arguments that are None are left out, and from_ is from."""
    fields = {name.rstrip("_"): _value(value, root) for name, value in args.items() if value is not None}
    return json.dumps({"op": op, **fields}).encode()


def _value(value: Any, root: os.PathLike[str]) -> Any:
    if isinstance(value, dict):
        return {k: _value(v, root) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(v, root) for v in value]
    if isinstance(value, os.PathLike):  # paths are relative to the workspace
        path = os.fspath(value)
        value = os.path.relpath(path, root) if os.path.isabs(path) else path
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:  # a path that is not UTF-8
            return {"bytes": base64.b64encode(os.fsencode(value)).decode()}
    return value


def failure(answer: dict[str, Any]) -> AmberfsError:
    kind = ERRORS.get(answer.get("kind", ""), FailedError)
    return kind(answer["error"], answer.get("hint", ""), answer.get("result"))


def result(op: str, value: Any) -> Any:
    """The result of an operation, or one of its events, in its type."""
    return _decode(OPERATIONS[op].result, value)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _decode(kind: Any, value: Any) -> Any:
    if isinstance(kind, types.UnionType):  # T | None
        kind = kind.__args__[0]
    if value is None or kind is Any:
        return value
    if kind is datetime:
        return datetime.fromisoformat(value)
    if dataclasses.is_dataclass(kind):
        hints, found = _hints(kind), {}
        for f in dataclasses.fields(kind):
            name = f.metadata.get("name", f.name)
            if name in value:  # other fields may come
                found[f.name] = _decode(hints[f.name], value[name])
        return kind(**found)
    args = typing.get_args(kind)
    if typing.get_origin(kind) is list:
        return [_decode(args[0], v) for v in value]
    if typing.get_origin(kind) is dict:
        return {k: _decode(args[1], v) for k, v in value.items()}
    return value
