"""Snapshots, forks and undo of an amberfs workspace."""

from . import api
from .aio import AsyncFork, AsyncWorkspace
from .api import *  # noqa: F403
from .sync import Fork, Snapshot, Workspace

__all__ = ["AsyncFork", "AsyncWorkspace", "Fork", "Snapshot", "Workspace", *api.__all__]
