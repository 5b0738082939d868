"""Which workspace a directory belongs to, by the kernel's table of mounts."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from .api import NotFoundError


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
    return find(real, table) or _behind(real)


def find(real: str, table: str) -> Place | None:
    """The workspace of a directory, by a table as /proc/self/mountinfo; None if another file system is mounted there."""
    root, point, kind, source = "/", "/", "", ""
    for row in _parse(table):
        if _below(real, row[1]) and len(row[1]) >= len(point):
            root, point, kind, source = row
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


def _behind(real: str) -> Place:
    """The nearest directory above with control files: in a virtual machine or gVisor, the mount has another type."""
    for directory in [real, *map(str, Path(real).parents)]:
        if os.path.lexists(os.path.join(directory, ".snapshots/call")):
            return Place(directory, "", "")
    raise NotFoundError(f"{real} is not inside an amberfs mount", "mount a workspace with `amberfs mount STORE MOUNTPOINT`")


def _below(path: str, directory: str) -> bool:
    return directory == "/" or path == directory or path.startswith(directory + "/")


def _parse(table: str) -> list[tuple[str, str, str, str]]:
    rows = []
    for line in table.splitlines():
        fields = [re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), f) for f in line.split(" ")]
        end = fields.index("-")
        rows.append((fields[3], fields[4], fields[end + 1], fields[end + 2]))
    return rows
