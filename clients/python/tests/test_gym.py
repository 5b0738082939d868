"""Run by tests/clients, which mounts a workspace: AMBERFS_TEST_MOUNT."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from amberfs import Workspace
from amberfs.gym import WorkspaceEnv

MOUNT = Path(os.environ["AMBERFS_TEST_MOUNT"])


class Gym(unittest.TestCase):
    def setUp(self) -> None:
        self.ws = Workspace.open(MOUNT).fork()
        self.addCleanup(self.ws.discard, force=True)

    def test_episodes(self) -> None:
        (self.ws.path / "a").write_text("1")
        with WorkspaceEnv(self.ws, lambda p: (len((p / "a").read_text()), (p / "end").exists()), max_steps=3) as env:
            with self.assertRaises(RuntimeError):
                env.step("true")
            for _ in range(2):  # the second begins as the first did
                observation, info = env.reset(seed=1)
                self.assertEqual((info["path"] / "a").read_text(), "1")
                observation, reward, terminated, truncated, _ = env.step("printf 2 >> a; cat a; exit 3")
                self.assertEqual((observation, reward, terminated, truncated), ({"output": "12", "status": 3}, 2, False, False))
                state = env.save()
                env.step("rm a; touch a")
                env.load(state)
                self.assertEqual(env.step("touch end")[1:4], (2, True, True))
            _, info = env.reset(options={"start": "base"})
            self.assertEqual(list(info["path"].iterdir()), [])
        self.assertEqual((self.ws.path / "a").read_text(), "1")
        self.assertEqual(self.ws.forks(), [])

    def test_reset_takes_no_more_for_more_files(self) -> None:
        main = Workspace.open(MOUNT)  # a fork does not learn it

        def records(files: int) -> int:
            for i in range(files):
                (self.ws.path / f"f{i}").touch()
            with WorkspaceEnv(self.ws, lambda _: (0, False)) as env:
                env.reset()
                env.step("rm f*; touch made")
                before = main.call("status").journal_records
                env.reset()
                return main.call("status").journal_records - before

        few, many = records(1), records(300)
        self.assertGreater(few, 0)
        self.assertLess(many, few + 100)  # background work may add a few

    def test_example(self) -> None:
        example = Path(__file__).parent.parent / "examples/gym_env.py"
        subprocess.run([sys.executable, example, self.ws.path], check=True, capture_output=True)
        self.assertEqual((self.ws.path / "word").read_text(), "ok")


if __name__ == "__main__":
    unittest.main()
