package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// curveRows are the costs that grow. Each builds one store up, size by size, and
// measures at each size; what can be repeated there is the median of five times.
var curveRows = []row{
	{name: "curves-snapshots", what: "snapshots of a tree of 1,000 files, one file changed before each", unit: "", where: onlyAmber, named: true, alone: true, run: curve(1000, snapshotSizes, growSnapshots)},
	{name: "curves-forks", what: "forks of a tree of 1,000 files, one file changed in each", unit: "", where: onlyAmber, named: true, alone: true, run: curve(1000, forkSizes, growForks)},
	{name: "curves-files", what: "files of 15 bytes, 100 in a directory", unit: "", where: onlyAmber, named: true, alone: true, run: curve(0, fileSizes, growFiles)},
	{name: "curves-history", what: "versions of a file of 100 lines, a snapshot of each", unit: "", where: onlyAmber, named: true, alone: true, run: curve(1000, versionSizes, growVersions)},
	{name: "curves-bytes", what: "GB in files of 1 MiB that do not compress", unit: "", where: onlyAmber, named: true, alone: true, run: curve(0, gigabytes, growBytes)},
	{name: "curves-directory", what: "empty files in one directory, made in the order of the listing and in another", unit: "", where: onlyAmber, named: true, alone: true, reach: "the other ≤ 2 × in order", run: curve(0, nameSizes, growDirectory)},
	{name: "curves-import", what: "files of 4 KiB in a directory of the disk, 100 in each below it", unit: "", where: onlyAmber, named: true, alone: true, reach: "100,000 in ≤ 5 s", run: curve(0, importSizes, growImport(100, 4<<10))},
	{name: "curves-large", what: "files of 512 MiB in a directory of the disk", unit: "", where: onlyAmber, named: true, alone: true, reach: "4 in ≤ 2.5 s", run: curve(0, largeSizes, growImport(1, 512<<20))},
	{name: "curves-many", what: "processes at once, each in a fork of its own: create, write 4 KiB, read, rename, every second time unlink", unit: "", where: onlyAmber, named: true, alone: true, reach: "the slowest ≥ 50 % of the mean", run: curve(0, processes, growMany)},
}

var (
	snapshotSizes = []int{1_000, 10_000, 100_000}
	forkSizes     = []int{10, 100, 1_000, 10_000}
	fileSizes     = []int{1_000, 10_000, 100_000, 1_000_000}
	versionSizes  = []int{100, 1_000, 10_000}
	gigabytes     = []int{1, 4, 16}
	nameSizes     = []int{10_000, 100_000, 1_000_000}
	importSizes   = []int{1_000, 10_000, 100_000}
	largeSizes    = []int{1, 4}
	processes     = []int{1, 2, 8, 64}
)

// A curving is a store that grows.
type curving struct {
	w *work
	*amberHistory
	size, before int // now, and at the step before
}

// curve grows a store with so many files, and notes at each size what grow returns.
func curve(files int, sizes []int, grow func(c *curving) error) func(*work) (float64, error) {
	return func(w *work) (f float64, err error) {
		h, err := newAmberHistory(w.b, filepath.Join(w.b.base, fmt.Sprintf("curves-%d", w.b.serial)))
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		if files > 0 {
			if err := h.load(files); err != nil {
				return 0, err
			}
		}
		w.place.metrics = "" // they are another daemon's
		c := &curving{w: w, amberHistory: h}
		for _, size := range sizes {
			c.before, c.size = c.size, w.n(size)
			if c.size <= c.before {
				continue
			}
			if err := grow(c); err != nil {
				return 0, fmt.Errorf("at %d: %w", c.size, err)
			}
			if err := c.rest(); err != nil {
				return 0, err
			}
		}
		return float64(c.size), nil
	}
}

func (c *curving) note(what, unit string, value float64) {
	c.w.also(fmt.Sprintf("%d %s", c.size, what), unit, value)
}

// five notes the median time of five calls.
func (c *curving) five(what string, do func(i int) error) error {
	i := 0
	took, err := c.w.medianOf(times, func() error { i++; return nil }, func() error { return do(i) })
	c.note(what, "ms", took)
	return err
}

// command notes how long a command of amberfs takes.
func (c *curving) command(what string, args ...string) error {
	return c.five(what, func(int) error { return c.run(args...) })
}

// rest is what every curve has when nothing is left to store: a gc, one with nothing to free, a
// change each second, the disk, a check of all, a cold mount without an index, one with it, and
// memory after that.
func (c *curving) rest() error {
	for _, what := range []string{"amberfs gc", "amberfs gc again"} {
		if err := c.alone(what, func() error { return c.run("gc") }); err != nil {
			return err
		}
	}
	if err := c.changes(); err != nil {
		return err
	}
	unix.Sync()
	var kib float64
	if _, err := fmt.Sscan(output("du", "-sk", c.store), &kib); err != nil {
		return err
	}
	c.note("disk", "MB", kib*1024/1e6)
	if err := c.alone("amberfs verify", func() error { return c.run("verify") }); err != nil {
		return err
	}
	figures, err := c.place.counters()
	if err != nil {
		return err
	}
	c.note("objects", "", figures["amberfs_objects"])
	if err := errors.Join(c.place.close(), os.RemoveAll(filepath.Join(c.store, "index"))); err != nil {
		return err
	}
	without := "mount without an index, cold"
	if dropCaches("3") != nil {
		without = "mount without an index, warm"
	}
	start := time.Now()
	if err := c.b.mount(&c.place, c.store); err != nil {
		return err
	}
	c.note(without, "s", time.Since(start).Seconds())
	took, err := c.reopen()
	if err != nil {
		return err
	}
	c.note("mount", "ms", ms(took))
	memory, err := c.memory("VmRSS")
	c.note("memory after a mount", "MB", memory)
	return err
}

// alone notes what something takes of a daemon that has just begun.
func (c *curving) alone(what string, do func() error) error {
	if _, err := c.reopen(); err != nil {
		return err
	}
	return c.work(what, do)
}

// changes notes what the daemon does beside a program that changes a byte each second: rounds of
// the policies, and what is to be stored.
func (c *curving) changes() error {
	return c.alone("five changes in five seconds", func() error {
		for i := range 5 {
			if err := os.WriteFile(filepath.Join(c.root(), "changes"), []byte{'0' + byte(i)}, 0o644); err != nil {
				return err
			}
			time.Sleep(time.Second)
		}
		return nil
	})
}

// work notes what something takes that the daemon does: time, its processors and memory.
func (c *curving) work(what string, do func() error) error {
	pid, err := c.daemon()
	if err == nil {
		err = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // VmHWM begins anew
	}
	if err != nil {
		return err
	}
	before, err := c.place.counters()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := do(); err != nil {
		return err
	}
	c.note(what, "s", time.Since(start).Seconds())
	after, err := c.place.counters()
	if err != nil {
		return err
	}
	const cpu = "process_cpu_seconds_total"
	c.note(what+", processors", "s", after[cpu]-before[cpu])
	memory, err := c.memory("VmHWM")
	c.note(what+", memory at most", "MB", memory)
	return err
}

// memory is a figure of the daemon's memory, in MB.
func (c *curving) memory(field string) (kib float64, err error) {
	pid, err := c.daemon()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(fileText(fmt.Sprintf("/proc/%d/status", pid)), field+":")
	_, err = fmt.Sscan(rest, &kib)
	return kib * 1024 / 1e6, err
}

// version writes one file of a hundred lines, one of which is new.
func (c *curving) version(i int) error {
	var text strings.Builder
	for j := range 100 {
		fmt.Fprintf(&text, "line %d of version %d\n", j, (i+99-j)/100)
	}
	return os.WriteFile(filepath.Join(c.root(), pathOf(0)), []byte(text.String()), 0o644)
}

// each does something for each step between the sizes and notes the mean time.
func (c *curving) each(what string, do func(i int) error) error {
	start := time.Now()
	err := c.b.loop(c.size-c.before, func(i int) error { return do(c.before + i) })
	c.note(what, "ms", ms(time.Since(start))/float64(c.size-c.before))
	return err
}

func growSnapshots(c *curving) error {
	if err := c.each("change and snapshot", func(i int) error {
		return errors.Join(os.WriteFile(filepath.Join(c.root(), pathOf(i%1000)), fmt.Appendf(nil, "change %d\n", i), 0o644), c.captureCall(fmt.Sprintf("s%d", i)))
	}); err != nil {
		return err
	}
	if err := c.stored(); err != nil {
		return err
	}
	return errors.Join(
		c.five("restore of 1 file", func(i int) error { return c.restoreCall(fmt.Sprintf("s%d", c.size-2-i%2)) }),
		c.command("amberfs list -n 20", "list", "-n", "20"),
		c.command("amberfs list --all", "list", "--all"))
}

// stored notes how long the daemon still worked until all snapshots had their ids.
func (c *curving) stored() error {
	start := time.Now()
	err := c.run("snapshot", fmt.Sprintf("stored%d", c.size))
	c.note("until all is stored", "s", time.Since(start).Seconds())
	return err
}

func growForks(c *curving) error {
	fork := func(i int) string { return filepath.Join(c.root(), ".forks", fmt.Sprintf("f%d", i)) }
	return errors.Join(
		c.each("fork", func(i int) error { return unix.Mkdir(fork(i), 0o755) }),
		c.each("first write in a fork", func(i int) error { return os.WriteFile(filepath.Join(fork(i), pathOf(0)), block, 0o644) }),
		c.five("snapshot of a fork", func(i int) error {
			return unix.Mkdir(filepath.Join(fork(0), ".snapshots", fmt.Sprintf("s%d-%d", c.size, i)), 0o755)
		}),
		c.command("amberfs forks", "forks"))
}

func growFiles(c *curving) error {
	start := time.Now()
	if err := c.load(c.size); err != nil {
		return err
	}
	c.note("import", "s", time.Since(start).Seconds())
	g := &grown{history: c.amberHistory, n: c.size}
	v := fmt.Sprintf("v%d", c.size)
	if err := c.run("snapshot", v); err != nil {
		return err
	}
	timed := func(what string, before, do func() error) error {
		took, err := c.w.medianOf(times, before, do)
		c.note(what, "ms", took)
		return err
	}
	i := 0
	err := errors.Join(
		timed("snapshot", g.change, func() error { i++; return c.captureCall(fmt.Sprintf("%s-%d", v, i)) }),
		timed("restore of 10 files", g.change, func() error { return c.restoreCall(v) }),
		timed("patch of 10 files", g.change, func() error { _, err := os.ReadFile(c.control("diff@" + v)); return err }),
		timed("fork", func() error { i++; return nil }, func() error { return unix.Mkdir(filepath.Join(c.root(), ".forks", fmt.Sprintf("%s-%d", v, i)), 0o755) }))
	if err != nil {
		return err
	}
	if _, err := c.reopen(); err != nil {
		return err
	}
	before, err := c.memory("VmRSS")
	if err != nil {
		return err
	}
	start = time.Now()
	if err := command("find", c.root(), "-size", "+1M"); err != nil {
		return err
	}
	c.note("find after a mount", "s", time.Since(start).Seconds())
	return c.inodes("memory of an inode that the kernel knows", before, c.size)
}

// inodes notes the memory that each of n inodes takes.
func (c *curving) inodes(what string, before float64, n int) error {
	memory, err := c.memory("VmRSS")
	c.note(what, "bytes", (memory-before)*1e6/float64(n))
	return err
}

func growVersions(c *curving) error {
	path := pathOf(0)
	return errors.Join(
		c.each("write and snapshot", func(i int) error { return errors.Join(c.version(i), c.captureCall(fmt.Sprintf("s%d", i))) }),
		c.stored(),
		c.command("amberfs history FILE", "history", path),
		c.command("amberfs blame FILE", "blame", path),
		c.five("patch from one of the first", func(i int) error { _, err := os.ReadFile(c.control(fmt.Sprintf("diff@s%d", i))); return err }))
}

func growBytes(c *curving) error {
	n := func(gb int) int { return gb * 1000 * 1000 * 1000 >> 20 }
	dir := filepath.Join(c.root(), fmt.Sprintf("b%d", c.size))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	files := n(c.size) - n(c.before)
	start := time.Now()
	if err := newData(dir, files); err != nil {
		return err
	}
	c.note("write", "MB/s", float64(files<<20)/1e6/time.Since(start).Seconds())
	if err := c.stored(); err != nil {
		return err
	}
	memory, err := c.memory("VmRSS")
	c.note("memory after that", "MB", memory)
	return err
}

// newData writes n files of 1 MiB that have nothing in common and do not compress.
func newData(dir string, n int) error {
	for i := range n {
		if err := os.WriteFile(name(dir, i), noise(1<<20), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// growDirectory lists names in the order that they were made in and in another, with the
// attributes of each. A listing's order is that of the names' hashes, and inodes lie in the order
// in which they were made.
func growDirectory(c *curving) error {
	made := func(dir string, names []string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return c.b.loop(len(names), func(i int) error { return unix.Mknod(filepath.Join(dir, names[i]), unix.S_IFREG|0o644, 0) })
	}
	names := make([]string, c.size)
	for i := range names {
		names[i] = fmt.Sprintf("f%07d", i)
	}
	other, inOrder := filepath.Join(c.root(), fmt.Sprint("other", c.size)), filepath.Join(c.root(), fmt.Sprint("in-order", c.size))
	before, err := c.memory("VmRSS")
	if err := errors.Join(err, made(other, names), c.inodes("memory of a new inode", before, c.size)); err != nil {
		return err
	}
	listed, err := os.Open(other)
	if err != nil {
		return err
	}
	names, err = listed.Readdirnames(-1)
	if err := errors.Join(err, listed.Close(), made(inOrder, names), c.stored()); err != nil {
		return err
	}
	for what, dir := range map[string]string{"in order": inOrder, "in another": other} {
		if _, err := c.reopen(); err != nil {
			return err
		}
		for _, m := range []struct{ when, drops string }{{"cold", "3"}, {"warm", "2"}} {
			if err := dropCaches(m.drops); err != nil {
				return err
			}
			if err := c.work("find of names made "+what+", "+m.when, func() error { return command("find", dir, "-size", "+1M") }); err != nil {
				return err
			}
		}
	}
	return nil
}

// growImport imports files of so many bytes, so many in a directory.
func growImport(each, size int) func(c *curving) error {
	return func(c *curving) error {
		dir := filepath.Join(c.b.base, fmt.Sprintf("imported-%d-%d", size, c.size))
		for i := range c.size {
			path := name(filepath.Join(dir, fmt.Sprintf("d%05d", i/each)), i)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, noise(size), 0o644)); err != nil {
				return err
			}
		}
		defer os.RemoveAll(dir)
		for _, m := range []struct {
			what string
			argv []string
		}{
			{"cp -a", []string{"cp", "-a", dir, dir + "-copy"}},
			{"amberfs run --from DIR", []string{c.b.bin, "run", "--from", dir, dir + "-store", "--", "true"}},
			{"amberfs run --from DIR --discard", []string{c.b.bin, "run", "--from", dir, "--discard", "--", "true"}},
			{"amberfs import DIR", []string{c.b.bin, "-C", c.root(), "import", dir}},
		} {
			unix.Sync()
			start := time.Now()
			if err := command(m.argv[0], m.argv[1:]...); err != nil {
				return err
			}
			c.note(m.what, "s", time.Since(start).Seconds())
		}
		return errors.Join(os.RemoveAll(dir+"-copy"), os.RemoveAll(dir+"-store"))
	}
}
