"""Run by tests/clients, which mounts a workspace: AMBERFS_TEST_MOUNT."""

import asyncio
import os
import tempfile
import unittest
from datetime import datetime, timezone
from pathlib import Path

from amberfs import AsyncWorkspace, ConflictError, DeniedError, ExistsError, NotFoundError, UsageError, Workspace
from amberfs._locate import find, locate

MOUNT = Path(os.environ["AMBERFS_TEST_MOUNT"])
REMOTE = os.environ["AMBERFS_TEST_REMOTE_NAME"]


class Client(unittest.TestCase):
    def setUp(self) -> None:
        """Each test has a fork of its own."""
        self.ws = Workspace.open(MOUNT).fork()
        self.addCleanup(self.ws.discard, force=True)

    def test_snapshots(self) -> None:
        ws = self.ws
        (ws.path / "a").write_text("one\n")
        s = ws.snapshot("first", message="m", labels={"k": "v"}, wait=True)
        self.assertEqual(s.name, "first")
        self.assertRegex(s.id, "^[0-9a-f]{64}$")
        self.assertLessEqual(s.created, datetime.now(timezone.utc))
        (ws.path / "a").write_text("two\n")
        (ws.path / "ä").write_text("ö\n")
        self.assertIn("\n-one\n+two\n", ws.diff(s))
        self.assertIn("\n+two\n", ws.diff())
        self.assertEqual([p.status + p.path for p in ws.changes(s).paths], ["Ma", "Aä"])
        self.assertEqual(ws.restore(s, paths=[ws.path / "a"]).changed, 1)
        self.assertEqual((ws.path / "a").read_text(), "one\n")
        self.assertEqual((ws.path / "ä").read_text(), "ö\n")
        ws.undo()
        self.assertEqual((ws.path / "a").read_text(), "two\n")
        self.assertEqual([s.message for s in ws.list(labels={"k": "v"})], ["m"])
        self.assertEqual(ws.diff(s, s), "")
        self.assertIn("interval_seconds", ws.call("policy").__slots__)

    def test_names_that_are_not_utf8(self) -> None:
        name = os.fsdecode(b"\xff.txt")
        (self.ws.path / name).write_text("one\n")
        s = self.ws.snapshot()
        (self.ws.path / name).write_text("two\n")
        self.assertEqual(self.ws.restore(s, paths=[name]).changed, 1)
        self.assertEqual((self.ws.path / name).read_text(), "one\n")

    def test_long_diff_and_bytes(self) -> None:
        s = self.ws.snapshot()
        data = bytes(i % 251 for i in range(300_000))
        (self.ws.path / "bytes").write_bytes(data)
        (self.ws.path / "lines").write_text("a line\n" * 50_000)
        self.assertEqual(self.ws.diff(s, paths=["lines"]).count("\n+a line"), 50_000)
        self.assertEqual(self.ws.call("file", path="bytes"), data)
        self.assertEqual(self.ws.call("file", path="lines", limit=7), b"a line\n")

    def test_forks(self) -> None:
        ws = self.ws
        (ws.path / "a").write_text("1\n2\n3\n")
        with ws.fork("try") as f:
            self.assertEqual(f.path, ws.path / ".forks/try")
            with self.assertRaises(ExistsError):
                ws.fork("try")
            (f.path / "a").write_text("one\n2\n3\n")
            f.snapshot("inside")
            (ws.path / "a").write_text("1\n2\nthree\n")
            self.assertEqual(f.merge().changed, 1)
            self.assertEqual((ws.path / "a").read_text(), "one\n2\nthree\n")
            (f.path / "a").write_text("uno\n2\n3\n")
            with self.assertRaises(ConflictError) as caught:
                f.merge()
            self.assertEqual(caught.exception.result["conflicts"], ["a"])
            self.assertIn("inside", [s.name for s in ws.open_fork("try").list()])
        self.assertEqual(ws.forks(), [])
        self.assertEqual([s.name for s in ws.list(kind="fork")], ["try"])
        with ws.fork(snapshot="try") as g:
            self.assertEqual((g.path / "a").read_text(), "uno\n2\n3\n")
            g.discard()
        self.assertEqual([s.name for s in ws.list(kind="fork")], ["try"])

    def test_claim(self) -> None:
        with self.ws.claim("job") as first:
            self.assertEqual(first.tier, "fresh")
            (first.path / "a").write_text("x")
        second = self.ws.claim("job")
        self.assertEqual((second.tier, (second.path / "a").read_text()), ("resumed", "x"))

    def test_events(self) -> None:
        (self.ws.path / "a").write_text("x")
        seen = []
        for e in self.ws.events(follow=True):
            seen.append(e.path)
            if e.path == "a":
                (self.ws.path / "b").write_text("x")
            if e.path == "b":
                break
        self.assertEqual(list(dict.fromkeys(p for p in seen if p)), ["a", "b"])
        self.assertEqual([e.path for e in self.ws.events(limit=1, action="created")], ["b"])
        with self.assertRaises(UsageError):
            list(self.ws.events(limit=-1))

    def test_errors(self) -> None:
        with self.assertRaisesRegex(NotFoundError, "none") as caught:
            self.ws.restore("none")
        self.assertEqual(caught.exception.kind, "not-found")
        for call in (lambda: self.ws.call("list", naem=1), lambda: self.ws.call("events", limit=-1)):
            self.assertRaises(UsageError, call)
        for call in (lambda: self.ws.diff("none"), lambda: self.ws.open_fork("none"), lambda: Workspace.open("/")):
            self.assertRaises(NotFoundError, call)

    def test_remote(self) -> None:
        (self.ws.path / "a").write_text("x")
        ws = Workspace.open(MOUNT)
        with ws.fork() as f:
            (f.path / "a").write_text("pushed")
        s = ws.list(kind="fork")[0]
        [pushed] = ws.push(s, remote=REMOTE)
        self.assertEqual(pushed.snapshot, s.name)
        [pulled] = ws.pull(REMOTE, s, as_="back")
        self.assertEqual((pulled.name, pulled.id), ("back", pushed.id))

    def test_directory_inside(self) -> None:
        (self.ws.path / "deep/er").mkdir(parents=True)
        self.assertEqual(Workspace.open(self.ws.path / "deep/er").path, self.ws.path)


class AsyncClient(unittest.IsolatedAsyncioTestCase):
    async def test_forks_at_once(self) -> None:
        ws = await AsyncWorkspace.open(MOUNT)

        async def attempt(n: int) -> str:
            async with await ws.fork() as f:
                (f.path / f"n{n}").write_text("x")
                s = await f.snapshot(wait=True)
                self.assertIn(f"n{n}", await f.diff("base", s))
                await f.discard()
                return f.name

        names = await asyncio.gather(*map(attempt, range(5)))
        self.assertEqual(set(names) & {f.name for f in await ws.forks()}, set())

    async def test_events(self) -> None:
        ws = await (await AsyncWorkspace.open(MOUNT)).fork()
        (ws.path / "a").write_text("x")

        async def follow() -> None:
            async for e in ws.events(follow=True):
                if e.path == "a":
                    heard.set()

        heard = asyncio.Event()
        task = asyncio.create_task(follow())
        await heard.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        with self.assertRaises(NotFoundError):
            await ws.restore("none")
        await ws.discard(force=True)


class Locate(unittest.TestCase):
    def test_table(self) -> None:
        table = r"""22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
40 22 0:50 / /home/ann/ws rw,nosuid shared:9 - fuse.amberfs /home/ann/my\040store rw,user_id=1000
41 22 0:50 /.forks/try /sandbox/w rw - fuse.amberfs /home/ann/my\040store rw,user_id=1000
42 40 0:60 / /home/ann/ws/build rw - tmpfs tmpfs rw
43 22 0:50 /.forks/try/.forks/deep/src /src rw - fuse.amberfs /home/ann/my\040store rw,user_id=1000
"""
        for directory, root, workspace in [
            ("/home/ann/ws/a/b", "/home/ann/ws", ""),
            ("/home/ann/ws/.forks/try/a", "/home/ann/ws/.forks/try", "try"),
            ("/home/ann/ws/.snapshots/v1", "/home/ann/ws", ""),
            ("/sandbox/w/.forks/x/a", "/sandbox/w/.forks/x", "try/x"),
            ("/sandbox/w", "/sandbox/w", "try"),
        ]:
            self.assertEqual(find(directory, table, 1000), (root, "/home/ann/my store", workspace))
        for directory in ["/", "/home/ann", "/home/ann/ws2", "/home/ann/ws/build"]:
            self.assertIsNone(find(directory, table, 1000))
        self.assertRaises(NotFoundError, find, "/src/pkg", table, 1000)
        # Anybody may mount a file system of that name.
        self.assertRaises(DeniedError, find, "/home/ann/ws", table, 1001)
        self.assertRaises(DeniedError, find, "/home/ann/ws", table.replace(",user_id=1000", ""), 1000)
        self.assertIsNotNone(find("/home/ann/ws", table.replace("=1000", "=0"), 1001))

    def test_control_files_elsewhere(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, ".snapshots").mkdir()
            Path(directory, ".snapshots/call").touch()
            self.assertRaises(NotFoundError, locate, directory)


if __name__ == "__main__":
    unittest.main()
