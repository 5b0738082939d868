"""Episodes in a workspace: random commands, until a file has what is wanted.

    python3 gym_env.py WORKSPACE

It prints the commands of the best episode, and merges its files.
"""

import random
import sys
from pathlib import Path

from amberfs import Workspace
from amberfs.gym import WorkspaceEnv

WANTED = "ok"
ACTIONS = [f"printf {letter} >> word" for letter in WANTED] + ["rm -f word"]


def reward(path: Path) -> tuple[float, bool]:
    """How much of the word is right, and whether all of it is."""
    word = (path / "word").read_text() if (path / "word").exists() else ""
    return (len(word) if WANTED.startswith(word) else -1.0), word == WANTED


def main() -> None:
    workspace, policy = Workspace.open(sys.argv[1]), random.Random(1)
    with WorkspaceEnv(workspace, reward, max_steps=8) as env:
        while True:
            env.reset()
            commands, over = [], False
            while not over:
                commands.append(policy.choice(ACTIONS))
                _, _, terminated, truncated, _ = env.step(commands[-1])
                over = terminated or truncated
            if terminated:
                print(*commands, sep="\n")
                env.fork.merge()
                return


if __name__ == "__main__":
    main()
