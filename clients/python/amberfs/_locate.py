"""Which workspace a directory belongs to, by the kernel's table of mounts."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from .api import DeniedError, FailedError, NotFoundError

# Types of file systems that write beside what they show.
_OVERLAYS = {"overlay", "aufs", "fuse.fuse-overlayfs", "fuse.unionfs"}


# Types of FUSE and virtiofs, and of 9p, as statfs(2) has them.
_TYPES = (0x65735546, 0x01021997)


class _Row(NamedTuple):
    root: str
    point: str
    kind: str
    source: str
    user: int | None  # that mounted it


class Place(NamedTuple):
    root: str
    store: str  # "" if unknown
    workspace: str  # the forks that lead to it: "" for main, else as a/b


def locate(directory: str | os.PathLike[str]) -> Place:
    real = os.path.realpath(directory, strict=True)
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        table = ""
    return find(real, table) or _behind(real, table)


def _check_user(on: _Row, caller: int) -> None:
    """Anybody may mount a file system as fuse.amberfs, with any source. What nobody can choose is
    the user that mounted it, so that user's mounts count for that user, and root's for everybody.
    Root may use another user's mount of a store that is that user's, too."""
    if on.user in (0, caller):
        return
    if on.user is None or caller != 0:
        raise DeniedError(f"{on.point} is a mount of another user", "only that user and root can use it")
    try:
        owner = os.stat(on.source).st_uid
        everybody = Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
    except OSError:
        return  # a sandbox that has the mount alone
    if owner != on.user and everybody:
        raise DeniedError(f"the store {on.source} is of another user than the mount", "")


def find(real: str, table: str, caller: int | None = None) -> Place | None:
    """The workspace of a directory, by a table as /proc/self/mountinfo; None if another file system is mounted there."""
    on = _on(real, table)
    root, point, kind, source, _ = on
    if kind == "fuse.amberfs" or on.user is not None:
        _check_user(on, os.geteuid() if caller is None else caller)
    if kind != "fuse.amberfs":
        return None
    inside = os.path.normpath(os.path.join(root, os.path.relpath(real, point))).strip("/").split("/")
    forks: list[str] = []
    while len(inside) >= 2 and inside[0] == ".forks":
        forks.append(inside[1])
        inside = inside[2:]
    top = "/" + "/".join(f".forks/{name}" for name in forks)
    if not _below(top, root):
        raise NotFoundError(f"{point} shows only a part of a workspace", "mount the root of the workspace")
    return Place(os.path.normpath(os.path.join(point, os.path.relpath(top, root))), source, "/".join(forks))


def overlaid(root: str) -> FailedError:
    """The error for a workspace below an overlay: what is written to control files stays in the overlay."""
    return FailedError(
        f"{root} is an overlay over an amberfs workspace: snapshots and restores do nothing in it",
        "give the sandbox the workspace itself, without `:O` or an overlay",
    )


def _behind(real: str, table: str) -> Place:
    """The nearest directory above with control files: in a virtual machine or gVisor, the mount has another type.
    Anybody may make such files on another file system, or in a directory below."""
    for directory in [real, *map(str, Path(real).parents)]:
        if not os.path.lexists(os.path.join(directory, ".snapshots/call")):
            continue
        if _on(directory, table).kind in _OVERLAYS:
            raise overlaid(directory)
        if _is_control(os.path.join(directory, ".snapshots")):
            return Place(directory, "", "")
    raise NotFoundError(f"{real} is not inside an amberfs mount", "mount a workspace with `amberfs mount STORE MOUNTPOINT`")


def _is_control(directory: str) -> bool:
    buffer = ctypes.create_string_buffer(512)  # the type is the first long of struct statfs
    if ctypes.CDLL(None).statfs(os.fsencode(directory), buffer) != 0:
        return False
    kind = int.from_bytes(buffer[: ctypes.sizeof(ctypes.c_long)], sys.byteorder)
    return kind in _TYPES and os.lstat(directory).st_uid in (0, os.geteuid())


def _on(path: str, table: str) -> _Row:
    """The mount that a path is on."""
    on = _Row("/", "/", "", "", None)
    for row in _parse(table):
        if _below(path, row.point) and len(row.point) >= len(on.point):
            on = row
    return on


def _below(path: str, directory: str) -> bool:
    return directory == "/" or path == directory or path.startswith(directory + "/")


def _parse(table: str) -> list[_Row]:
    rows = []
    for line in table.splitlines():
        fields = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), f) for f in line.split(" ")]
        end = fields.index("-")
        user = re.search(r"(?:^|,)user_id=(\d+)(?:,|$)", fields[end + 3] if len(fields) > end + 3 else "")
        rows.append(_Row(fields[3], fields[4], fields[end + 1], fields[end + 2], int(user[1]) if user else None))
    return rows
