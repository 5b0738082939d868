"""An environment with the interface of Gymnasium: episodes work in forks of a workspace.

reset() is a new fork of one state: it takes the same time for ten files as for a million,
and what the episode before left behind is gone. Gymnasium itself is not needed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from .sync import Fork, Named, Snapshot, Workspace

Observation = dict[str, Any]
Reward = tuple[float, bool]  # and whether the episode is over


class WorkspaceEnv:
    """Actions are shell commands. Subclasses can have others: see act."""

    def __init__(
        self,
        workspace: Workspace,
        reward: Callable[[Path], Reward],
        *,
        start: Named = "",
        max_steps: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Episodes begin with a snapshot, by default one of the present state.

        reward gets the directory of an episode after each step. A command ends after timeout
        seconds, and an episode is truncated after max_steps.
        """
        self.workspace = workspace
        self.reward = reward
        self.start = start or workspace.snapshot(if_changed=True)
        self.max_steps, self.timeout = max_steps, timeout
        self.fork: Fork | None = None
        self.steps = 0

    @property
    def path(self) -> Path:
        """Where the episode has its files."""
        return self._episode().path

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode. options can have another snapshot to begin with: {"start": …}."""
        self.close()
        start = (options or {}).get("start", self.start)
        self.fork = self.workspace.fork(snapshot=start if isinstance(start, str) else start.name)
        self.steps = 0
        return self.observe(), {"path": self.path}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        observation = self.act(action)
        self.steps += 1
        reward, terminated = self.reward(self.path)
        truncated = self.max_steps is not None and self.steps >= self.max_steps
        return observation, reward, terminated, truncated, {"path": self.path}

    def act(self, action: Any) -> Observation:
        """Does an action in path, and returns what is seen of it."""
        try:
            done = subprocess.run(["sh", "-c", action], cwd=self.path, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return {"output": "", "status": None}
        return {"output": done.stdout + done.stderr, "status": done.returncode}

    def observe(self) -> Observation:
        """What is seen at the beginning of an episode."""
        return {"output": "", "status": 0}

    def save(self) -> Snapshot:
        """A state of this episode, for load."""
        return self._episode().snapshot()

    def load(self, state: Named) -> None:
        """Goes back to a state of this episode: a search tries another way from there."""
        self._episode().restore(state)

    def close(self) -> None:
        """Ends the episode, and keeps nothing of it. `merge` of fork, before, keeps its files."""
        if self.fork is not None:
            self.fork.discard(force=True)
            self.fork = None

    def _episode(self) -> Fork:
        if self.fork is None:
            raise RuntimeError("call reset first")
        return self.fork

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
