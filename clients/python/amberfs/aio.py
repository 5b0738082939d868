"""The asynchronous client.

Snapshots, forks and undo of an amberfs workspace. Files stay files: work on them below
workspace.path.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Self, Unpack
from urllib.parse import quote

from . import _streams, _wire, api
from ._locate import locate, overlaid

Snapshot = api.Info
Named = str | api.Info  # a snapshot, or its name
List = list  # in the class, list is a method


def _name(of: Named) -> str:
    return of if isinstance(of, str) else of.name


def _names(of: Named | Iterable[Named]) -> list[str]:
    return [_name(of)] if isinstance(of, (str, api.Info)) else [_name(one) for one in of]


class _Socket:
    """HTTP on the socket of a store."""

    def __init__(self, store: str, workspace: str) -> None:
        self._store, self._workspace = store, workspace

    def inside(self, fork: str) -> _Socket:
        return _Socket(self._store, f"{self._workspace}/{fork}".strip("/"))

    async def send(self, op: str, request: bytes) -> Any:
        """The answer: an object, text, or bytes."""
        try:
            connection, headers = await self._request(op, request)
            try:
                body, trailers = bytearray(), {}
                async for part in self._parts(connection, headers, trailers):
                    body += part
            finally:
                connection.close()
        except (OSError, EOFError) as err:
            raise self._gone() from err
        if "amberfs-error" in trailers:
            raise _wire.failure(json.loads(trailers["amberfs-error"]))
        if headers["status"] != "200":
            raise _wire.failure(json.loads(body))
        match api.OPERATIONS[op].stream:
            case "text":
                return body.decode()
            case "bytes":
                return bytes(body)
        return json.loads(body)

    async def events(self, op: str, args: dict[str, Any], root: Path) -> AsyncIterator[Any]:
        try:
            connection, headers = await self._request(op, _wire.encode(op, args, root))
            try:
                name, rest = b"", bytearray()
                async for part in self._parts(connection, headers, {}):
                    rest += part
                    if headers["status"] != "200":
                        continue
                    *lines, rest = rest.split(b"\n")
                    for line in lines:
                        if line.startswith(b"event: "):
                            name = line[7:]
                        elif line.startswith(b"data: "):
                            if name == b"error":
                                raise _wire.failure(json.loads(line[6:]))
                            yield json.loads(line[6:])
                if headers["status"] != "200":
                    raise _wire.failure(json.loads(rest))
            finally:
                connection.close()
        except (OSError, EOFError) as err:
            raise self._gone() from err

    async def _request(self, op: str, request: bytes) -> tuple[_streams.Async, dict[str, str]]:
        connection = await _streams.Async.connect(self._store)
        try:
            query = f"?workspace={quote(self._workspace, safe='')}" if self._workspace else ""
            command = quote(os.path.basename(sys.argv[0]) or "python")
            head = f"POST /v1/{op}{query} HTTP/1.1\r\nHost: amberfs\r\nAmberfs-Command: {command}\r\n"
            head += f"Content-Length: {len(request)}\r\nConnection: close\r\n\r\n"
            await connection.write(head.encode() + request)
            status = (await self._line(connection)).split(b" ")
            headers = await self._headers(connection)
            headers["status"] = status[1].decode()
            return connection, headers
        except BaseException:
            connection.close()
            raise

    async def _line(self, connection: _streams.Async) -> bytes:
        line = await connection.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return line.strip()

    async def _headers(self, connection: _streams.Async) -> dict[str, str]:
        headers = {}
        while line := await self._line(connection):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        return headers

    async def _parts(self, connection: _streams.Async, headers: dict[str, str], trailers: dict[str, str]) -> AsyncIterator[bytes]:
        if headers.get("transfer-encoding") != "chunked":
            yield await self._exactly(connection, int(headers["content-length"]))
            return
        while size := int(await self._line(connection), 16):
            yield await self._exactly(connection, size)
            await self._line(connection)
        trailers.update(await self._headers(connection))

    async def _exactly(self, connection: _streams.Async, n: int) -> bytes:
        data = await connection.read(n)
        if len(data) < n:
            raise EOFError
        return data

    def _gone(self) -> api.AmberfsError:
        return api.FailedError(f"the daemon of the store {self._store} does not answer", "its log is amberfs.log in the store")


class _NotAsked(OSError):
    """No daemon has carried the request out."""


class _Call:
    """Requests through .snapshots/call."""

    def __init__(self, root: str) -> None:
        self._root = root

    def inside(self, fork: str) -> _Call:
        return _Call(os.path.join(self._root, ".forks", fork))

    async def send(self, op: str, request: bytes) -> Any:
        return await _streams.Async.thread(self._exchange, op, request)

    def _exchange(self, op: str, request: bytes) -> Any:
        for _ in range(9):
            try:
                return self._once(op, request)
            except _NotAsked:  # the daemon died before: the next one is asked
                pass
        return self._once(op, request)

    def _once(self, op: str, request: bytes) -> Any:
        file = os.path.join(self._root, ".snapshots", f"call.{secrets.token_hex(12)}")
        failed = None
        try:
            with open(file, "x+b", buffering=0) as f:
                try:
                    f.write(request)
                except OSError as err:  # it is answered, too
                    if err.errno == errno.ESTALE:
                        raise _NotAsked(*err.args) from err
                    failed = err
                answer = f.readall()  # it follows the request
            if not answer.strip():
                raise failed or api.FailedError("the mount did not answer")
            fields = json.loads(answer)
            if "ok" not in fields:  # the request itself
                raise overlaid(self._root)
            if not fields["ok"]:
                raise _wire.failure(fields)
            stream = Path(f"{file}.stream").read_bytes() if fields.get("stream") else None
            match api.OPERATIONS[op].stream:
                case "text":
                    return fields.get("text", "") if stream is None else stream.decode()
                case "bytes":
                    return fields.get("text", "").encode() if stream is None else stream
                case "events":
                    return fields.get("items", []) if stream is None else [json.loads(line) for line in stream.splitlines()]
            return fields.get("result")
        finally:
            Path(file).unlink(missing_ok=True)

    async def events(self, op: str, args: dict[str, Any], root: Path) -> AsyncIterator[Any]:
        """Only the socket follows: this asks again and again."""
        args = dict(args)
        follow = args.pop("follow", False)
        if follow and args.pop("new", False):
            for event in await self.send(op, _wire.encode(op, {"limit": 1}, root)):
                args["after"] = event["seq"]
        while True:
            for event in await self.send(op, _wire.encode(op, args, root)):
                args["after"] = event["seq"]
                yield event
            if not follow:
                return
            args.pop("limit", None)
            await _streams.Async.sleep(0.2)


class AsyncWorkspace:
    """A workspace: main, or a fork."""

    def __init__(self, path: Path, transport: _Socket | _Call) -> None:
        """Use open."""
        self.path = path
        self._transport = transport

    @classmethod
    async def open(cls, directory: str | os.PathLike[str] = ".") -> AsyncWorkspace:
        """The workspace that a directory is in."""
        place = await _streams.Async.thread(locate, directory)
        transport: _Socket | _Call = _Call(place.root)
        if place.store:
            try:
                (await _streams.Async.connect(place.store)).close()
                transport = _Socket(place.store, place.workspace)
            except OSError:
                pass
        return AsyncWorkspace(Path(place.root), transport)

    async def call(self, op: str, /, **args: Any) -> Any:
        """Any operation of docs/api/openapi.yaml. Events come from events."""
        answer = await self._transport.send(op, _wire.encode(op, args, self.path))
        return answer if api.OPERATIONS[op].stream else _wire.result(op, answer)

    async def snapshot(self, name: str = "", /, **options: Unpack[api.SnapshotArgs]) -> Snapshot:
        """Takes a snapshot."""
        return await self.call("snapshot", **{"name": name, **options})

    async def list(self, **options: Unpack[api.ListArgs]) -> List[Snapshot]:
        """The snapshots, newest first."""
        return (await self.call("list", **options)).snapshots

    async def diff(self, a: Named = "base", b: Named = "", /, **options: Unpack[api.DiffArgs]) -> str:
        """The unified diff from a snapshot, by default the state that the workspace began from, to another, or to now."""
        return await self.call("diff", **{"a": _name(a), "b": _name(b), **options})

    async def changes(self, a: Named = "base", b: Named = "", /, **options: Unpack[api.ChangesArgs]) -> api.Diffed:
        """The paths that differ between a snapshot, by default the state that the workspace began from, and another, or now."""
        return await self.call("changes", **{"a": _name(a), "b": _name(b), **options})

    async def changed(self, **options: Unpack[api.ChangedArgs]) -> api.WhatChanged:
        """What changed since the last look: deleted and overwritten files first, and how to undo it."""
        return await self.call("changed", **options)

    async def restore(self, to: Named, /, **options: Unpack[api.RestoreArgs]) -> api.RestoreResult:
        """Makes the workspace, or some paths of it, equal to a snapshot."""
        return await self.call("restore", **{"name": _name(to), **options})

    async def undo(self, **options: Unpack[api.RestoreArgs]) -> api.RestoreResult:
        """Undoes the last restore or merge."""
        return await self.restore("undo", **options)

    async def undo_by(self, actor: str, /, **options: Unpack[api.UndoByArgs]) -> api.UndoneBy:
        """Undoes what one actor changed."""
        return await self.call("undo-by", **{"by": actor, **options})

    async def fork(self, name: str = "", /, **options: Unpack[api.ForkArgs]) -> AsyncFork:
        """A writable copy of the present state, or of a snapshot.

        At the end of a `with` block it is deleted, and its last state stays as a snapshot.
        """
        made = await self.call("fork", **{"name": name or f"fork-{secrets.token_hex(5)}", **options})
        return AsyncFork(self, made.name, self._transport.inside(made.name), made.snapshot)

    async def claim(self, label: str, /, **options: Unpack[api.ClaimArgs]) -> AsyncFork:
        """The fork with a label; if there is none, it is created. It stays."""
        made = await self.call("claim", **{"label": label, **options})
        return AsyncFork(self, label, self._transport.inside(label), made.from_, made.tier, stays=True)

    async def forks(self) -> List[api.ForkState]:
        return (await self.call("forks")).forks

    async def open_fork(self, name: str, /) -> AsyncFork:
        """A fork that exists. It stays."""
        for fork in await self.forks():
            if fork.name == name:
                return AsyncFork(self, name, self._transport.inside(name), fork.base, stays=True)
        raise api.NotFoundError(f"there is no fork {name}")

    async def events(self, **options: Unpack[api.EventsArgs]) -> AsyncIterator[api.Event]:
        """The events, oldest first. With follow, they continue until the loop ends."""
        async for event in self._transport.events("events", dict(options), self.path):
            yield _wire.result("events", event)

    async def push(self, snapshots: Named | Iterable[Named], /, **options: Unpack[api.PushArgs]) -> List[api.Pushed]:
        """Sends snapshots to a remote."""
        return (await self.call("push", **{"snapshots": _names(snapshots), **options})).pushed

    async def pull(self, remote: str, snapshots: Named | Iterable[Named], /, **options: Unpack[api.PullArgs]) -> List[Snapshot]:
        """Gets snapshots of a remote, by their names there or their ids."""
        return (await self.call("pull", **{"remote": remote, "snapshots": _names(snapshots), **options})).pulled


class AsyncFork(AsyncWorkspace):
    """A fork is a workspace, too."""

    def __init__(self, parent: AsyncWorkspace, name: str, transport: _Socket | _Call, from_: str | None, tier: str | None = None, *, stays: bool = False) -> None:
        super().__init__(parent.path / ".forks" / name, transport)
        self.parent, self.name = parent, name
        self.from_ = from_  # the snapshot it began with
        self.tier = tier  # of claim: resumed, snapshot or fresh
        self._stays = stays

    async def merge(self, **options: Unpack[api.MergeArgs]) -> api.PromoteResult:
        """Merges the changes into the parent. A conflict is a ConflictError, and changes nothing."""
        return await self.parent.call("merge", **{"fork": self.name, **options})

    async def delete(self, **options: Unpack[api.DeleteForkArgs]) -> api.DeletedFork:
        """Deletes the fork, and keeps its last state as a snapshot of the parent."""
        deleted = await self.parent.call("delete-fork", **{"name": self.name, **options})
        self._stays = True  # nothing is left to delete
        return deleted

    async def discard(self, **options: Unpack[api.DeleteForkArgs]) -> api.DeletedFork:
        """Deletes the fork, the forks in it, and all that is only there."""
        return await self.delete(**{"discard": True, **options})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._stays:
            await self.delete()
