"""What waits: connections, files and pauses, with the same names for both clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def _short_name(store: str) -> Iterator[str]:
    """A short name of the socket: an address has 107 bytes at most."""
    fd = os.open(store, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/socket"
    finally:
        os.close(fd)


class Sync:
    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb")
        connection.close()  # when the file is

    @classmethod
    def connect(cls, store: str) -> Sync:
        connection = socket.socket(socket.AF_UNIX)
        try:
            with _short_name(store) as name:
                connection.connect(name)
        except OSError:
            connection.close()
            raise
        return cls(connection)

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()

    def readline(self) -> bytes:
        return self._file.readline()

    def read(self, n: int = -1) -> bytes:
        return self._file.read(n)

    def close(self) -> None:
        self._file.close()

    @staticmethod
    def thread(work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    sleep = staticmethod(time.sleep)


class Async:
    _LINE = 16 << 20  # bytes of the longest

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, store: str) -> Async:
        with _short_name(store) as name:
            return cls(*await asyncio.open_unix_connection(name, limit=cls._LINE))

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def readline(self) -> bytes:
        return await self._reader.readline()

    async def read(self, n: int = -1) -> bytes:
        if n < 0:
            return await self._reader.read()
        try:
            return await self._reader.readexactly(n)
        except asyncio.IncompleteReadError as err:
            return err.partial

    def close(self) -> None:
        self._writer.close()

    thread = staticmethod(asyncio.to_thread)
    sleep = staticmethod(asyncio.sleep)
