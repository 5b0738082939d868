"""Works in a fork with files alone, and prints one line an operation: what came of it.

The lines are the same in every sandbox. The first argument is a file outside of the fork,
the second the path of another fork: neither can be changed. With the third, "rename", commands
are written to a file that is then renamed: that of the one that renames are the rights.
"""

import errno
import fcntl
import json
import mmap
import os
import sqlite3
import subprocess
import sys

OUTSIDE, OTHER = sys.argv[1:3]
RENAME = sys.argv[3:] == ["rename"]


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def read(path):
    with open(path) as f:
        return f.read()


def shell(line):
    p = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    return p.returncode, p.stdout


def command(name, line):
    """What `echo LINE > .snapshots/NAME` returns."""
    if RENAME:
        return shell("echo '%s' > .snapshots/.%s.swp && mv .snapshots/.%s.swp .snapshots/%s" % (line, name, name, name))[0]
    return shell("echo '%s' > .snapshots/%s" % (line, name))[0]


def answer(text):
    """What an answer says, without what differs from run to run."""
    a = json.loads(text)
    a = a.get("result", a)
    if "snapshots" in a:
        return [s["name"] for s in a["snapshots"]]
    return {k: v for k, v in a.items() if k in ("name", "seq", "snapshot", "changed", "undo", "path", "ok", "kind")}


def call(request, name="call"):
    if RENAME and name == "call":
        command(name, json.dumps(request))
    else:
        write(".snapshots/" + name, json.dumps(request) + "\n")
    return answer(read(".snapshots/" + name))


def create():
    os.mkdir(".snapshots/v1")
    command("create", "v2 by echo")
    return sorted(os.listdir(".snapshots")), answer(read(".snapshots/create"))


def listed():
    return [(c[0], c[3]) for c in (line.split("\t") for line in read(".snapshots/list").splitlines())]


def no_change():
    """What clients do after they made a node: set what is there already."""
    for path in (".snapshots", ".snapshots/v1", ".snapshots/v1/a", ".snapshots/create"):
        st = os.stat(path)
        os.chown(path, st.st_uid, st.st_gid)
        os.chmod(path, st.st_mode & 0o7777)
    try:
        write(".snapshots/v1/a", "new\n")
    except OSError as e:
        return errno.errorcode[e.errno]


def diff():
    write("a", "two\n")
    size = os.stat(".snapshots/diff@v1").st_size
    text = read(".snapshots/diff@v1")
    return size == len(text), text


def restore_by_rename():
    os.rename(".snapshots/restore", ".snapshots/restore@v1")
    return read("a"), answer(read(".snapshots/restore"))


def restore_by_echo():
    write("a", "three\n")
    return command("restore", "v2"), read("a")


def restore_unknown():
    return command("restore", "none") != 0, answer(read(".snapshots/restore"))


def forks():
    os.mkdir(".forks/f1")
    command("fork", "v1 f2")
    write(".forks/f1/a", "in a fork\n")
    found = sorted(os.listdir(".forks")), read("a"), read(".forks/f2/a"), answer(read(".snapshots/fork"))
    os.rmdir(".forks/f1")
    return found, sorted(os.listdir(".forks"))


def calls():
    return call({"op": "list"}), call({"op": "show", "name": "v1"}, "call.mine"), call({"op": "diff", "a": "v1", "b": "v1"})


def one_descriptor():
    """A program that writes a request and goes on reading, and one that reads from the start."""
    f = os.open(".snapshots/call", os.O_RDWR)
    os.write(f, b'{"op":"list"}\n')
    behind = os.read(f, 1 << 16)
    return answer(behind), answer(os.pread(f, 1 << 16, 0)), os.fstat(f).st_size >= len(behind)


def reopened():
    f = os.open(".snapshots/create", os.O_PATH)
    with open("/proc/self/fd/%d" % f) as g:
        return os.access(".snapshots/create", os.R_OK), len(g.read()) == os.stat(".snapshots/create").st_size


def directories():
    os.mkdir("d")
    write("d/x", "x")
    os.rename("d", "e")
    return sorted(os.listdir("e")), sorted(os.listdir("e")), os.path.exists("d")


def links():
    os.link("a", "hard")
    os.symlink("a", "soft")
    return os.stat("a").st_nlink, os.stat("a").st_ino == os.stat("hard").st_ino, os.readlink("soft"), read("soft")


def attributes():
    os.setxattr("a", "user.k", b"v")
    os.chmod("a", 0o640)
    os.utime("a", ns=(10**18, 10**18 + 7))
    st = os.stat("a")
    return os.getxattr("a", "user.k").decode(), oct(st.st_mode), st.st_mtime_ns


def shared_mapping():
    write("m", "-" * 8192)
    f = os.open("m", os.O_RDWR)
    one, two = (mmap.mmap(f, 8192, mmap.MAP_SHARED) for _ in range(2))
    one[5000:5005] = b"bytes"
    one.flush()
    os.mkdir(".snapshots/mapped")
    return two[5000:5005], read("m")[5000:5005], read(".snapshots/mapped/m")[5000:5005]


def database():
    db = sqlite3.connect("db")
    mode = db.execute("pragma journal_mode=wal").fetchone()
    db.execute("create table t (n)")
    for n in range(100):
        with db:
            db.execute("insert into t values (?)", (n,))
    second = sqlite3.connect("db")
    found = second.execute("select sum(n) from t").fetchone(), second.execute("pragma integrity_check").fetchone()
    db.close(), second.close()
    return mode, found


def locks():
    """Between programs of the sandbox."""
    f, g = open("lock", "w"), open("lock")
    fcntl.flock(f, fcntl.LOCK_EX)
    try:
        fcntl.flock(g, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return "both"
    except OSError as e:
        return errno.errorcode[e.errno]


def restore_while_open():
    """A restore while files are open, appended to and mapped. By name all is as it was; what
    was open keeps its bytes; what is appended afterwards is there."""
    write("log", "1\n"), write("kept", "kept\n"), write("map", "A" * 4096)
    os.mkdir("wd"), os.mkdir(".snapshots/open")
    write("log", "1\n2\n"), write("map", "B" * 4096), write("wd/new", "")
    old, appending = open("log"), open("log", "a")
    f = os.open("map", os.O_RDWR)
    mapped = mmap.mmap(f, 4096, mmap.MAP_SHARED)
    seen = mapped[:1]
    here = os.open("wd", os.O_RDONLY | os.O_DIRECTORY)
    os.rename(".snapshots/restore", ".snapshots/restore@open")
    appending.write("late\n"), appending.flush()
    shell("echo 3 >> log")
    return read("log"), old.read(), read("map")[:1], seen, mapped[:1], read("kept"), os.listdir(here), os.listdir("wd")


def truncated_after_restore():
    """A file that was open over a restore is truncated: the restored one stays."""
    write("t", "old state\n")
    os.mkdir(".snapshots/t")
    write("t", "new state\n")
    f = os.open("t", os.O_RDWR)
    os.rename(".snapshots/restore", ".snapshots/restore@t")
    os.ftruncate(f, 0)
    return read("t"), os.pread(f, 100, 0)


def outside():
    """Writes to what is outside of the fork, and is not to succeed."""
    reached = []
    for path in OUTSIDE, OTHER + "/new", OTHER + "/.snapshots/create":
        try:
            open(path, "a").write("new\n")
            reached.append(path)
        except OSError:
            pass
    return reached


def limit():
    try:
        with open("big", "wb") as f:
            for _ in range(64):
                f.write(os.urandom(1 << 20))
        return "no limit"
    except OSError as e:
        os.unlink("big")
        return e.errno in (errno.EDQUOT, errno.ENOSPC), read("a")


def removed():
    os.rename(".snapshots/v2", ".snapshots/second")
    os.rmdir(".snapshots/second")
    return [name for name, _ in listed()]


write("a", "one\n")
for operation in (
    create, listed, no_change, diff, restore_by_rename, restore_by_echo, restore_unknown, forks, calls, one_descriptor,
    reopened, directories, links, attributes, shared_mapping, database, locks, restore_while_open,
    truncated_after_restore, outside, limit, removed,
):
    try:
        result = operation()
    except Exception as e:  # a line as any other: it differs from that outside of a sandbox
        result = "%s: %s" % (type(e).__name__, e)
    print("%s: %r" % (operation.__name__, result), flush=True)
