package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/amberfs/amberfs/tests/remotetest"
)

// remoteDelay is what the store of the rows of remotes takes for each request.
const remoteDelay = 30 * time.Millisecond

// remoteRows are pushes to an S3 service (versitygw) that takes 30 ms a request, and
// mounts from there, of a tree of 100,000 files; beside them restic, where it is
// installed. They are measured together, once.
func remoteRows() (all []row) {
	for _, r := range []struct{ name, what, unit, reach, ref string }{
		{"remote-first-bytes", "first push of 100000 files", "MB", "≤ 1.02 × restic", "restic"},
		{"remote-first-requests", "first push of 100000 files", "requests", "", "restic"},
		{"remote-first-time", "first push of 100000 files", "s", "", "restic"},
		{"remote-push-bytes", "push of 10 changed files", "KB", "≤ 0.8 × restic", "restic"},
		{"remote-push-requests", "push of 10 changed files", "requests", "≤ 4", "restic"},
		{"remote-push-time", "push of 10 changed files", "ms", "≤ 150 ms", "restic"},
		{"remote-nothing", "push of what is there already", "requests", "1", "restic"},
		{"remote-ls-time", "mount --from, cold, to the first ls", "ms", "≤ 250 ms", ""},
		{"remote-ls-requests", "the same: requests one after the other", "requests", "≤ 3", ""},
		{"remote-file-first", "then one file", "ms", "≤ 150 ms", ""},
		{"remote-file-later", "one file, later", "ms", "≤ 1.3 × 30 ms", ""},
		{"remote-find-time", "find over a cold mount, mounting included", "s", "≤ 3 s", ""},
		{"remote-find-requests", "the same: requests", "requests", "≤ 15", ""},
		{"remote-find-bytes", "the same: bytes", "MB", "≤ 12 MB", ""},
		{"remote-wake", "sleep and wake: push of 10 changed files, the store removed, mount --from, ls", "s", "≤ 0.5 s", ""},
		{"remote-claims-time", "1000 claims of a snapshot on a remote, cold", "s", "≤ 1 s", ""},
		{"remote-claims-bytes", "the same: bytes, as a multiple of the first one's", "×", "≤ 1.02", ""},
		{"remote-claims-memory", "the same: memory of the daemon for each", "KB", "≤ 50 KB", ""},
	} {
		all = append(all, row{name: r.name, what: r.what, unit: r.unit, reach: r.reach, ref: r.ref, once: true,
			alone: func(b *bench) ([]result, error) {
				if b.remote == nil {
					if err := b.measureRemote(); err != nil {
						return nil, err
					}
				}
				return b.remote[r.name], nil
			}})
	}
	return all
}

// A remoteBench measures what goes through a proxy before an S3 service.
type remoteBench struct {
	*bench
	proxy *remotetest.Proxy
	dir   string
	out   map[string][]result
}

func (r *remoteBench) note(row, place string, figure float64) {
	fmt.Fprintf(os.Stderr, "%-22s %-10s %.4g\n", row, place, figure)
	r.out[row] = append(r.out[row], result{Place: place, Median: figure, All: []float64{figure}})
}

// A passage is what went through the proxy meanwhile.
type passage struct {
	took     time.Duration
	requests int64
	sequence int
	up, down int64
}

func (r *remoteBench) during(do func() error) (passage, error) {
	p := r.proxy
	n, up, down, start := p.Requests.Load(), p.BytesUp.Load(), p.BytesDown.Load(), time.Now()
	err := do()
	took := time.Since(start)
	return passage{took, p.Requests.Load() - n, remotetest.InSequence(p.Served(start)), p.BytesUp.Load() - up, p.BytesDown.Load() - down}, err
}

func (b *bench) measureRemote() (err error) {
	server, endpoint, err := startS3(filepath.Join(b.base, "s3"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Process.Kill()); _ = server.Wait() }()
	proxy, err := remotetest.Start(endpoint)
	if err != nil {
		return err
	}
	defer proxy.Stop()
	for k, v := range map[string]string{"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret"} {
		if err := os.Setenv(k, v); err != nil {
			return err
		}
	}
	r := &remoteBench{bench: b, proxy: proxy, dir: filepath.Join(b.base, "remote"), out: map[string][]result{}}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	for _, do := range []func() error{r.restic, r.amber} {
		if err := do(); err != nil {
			return err
		}
	}
	b.remote = r.out
	return nil
}

// startS3 starts an S3 service with a bucket called amber.
func startS3(dir string) (*exec.Cmd, string, error) {
	bin := "bin/versitygw"
	if _, err := os.Stat(bin); err != nil {
		if bin, err = exec.LookPath("versitygw"); err != nil {
			return nil, "", &leftOut{"there is no versitygw (scripts/setup remote)"}
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "amber"), 0o755); err != nil {
		return nil, "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	addr := l.Addr().String()
	_ = l.Close()
	cmd := exec.Command(bin, "--port", addr, "--access", "testkey", "--secret", "testsecret", "--keep-alive", "--quiet", "posix", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	for range 500 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return cmd, "http://" + addr, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	return nil, "", errors.Join(errors.New("versitygw does not listen"), cmd.Wait())
}

// fillTree makes the tree, of files that hardly compress, and changeTen changes ten of
// them.
func (r *remoteBench) fillTree(dir string) error {
	return r.loop(r.n(100_000), func(i int) error {
		path := filepath.Join(dir, pathOf(i))
		if i%100 == 0 {
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				return err
			}
		}
		return os.WriteFile(path, remotetest.Bytes(uint64(i), 500+i%3000), 0o644)
	})
}

func (r *remoteBench) changeTen(dir string, seed uint64) error {
	return r.loop(10, func(i int) error {
		return os.WriteFile(filepath.Join(dir, pathOf(i*max(1, r.n(100_000)/10))), remotetest.Bytes(seed+uint64(i), 900), 0o644)
	})
}

// pushes notes the figures of a first push, one of ten files and one of nothing.
func (r *remoteBench) pushes(place string, tree string, push func(n int) error) error {
	first, err := r.during(func() error { return push(1) })
	if err != nil {
		return err
	}
	r.note("remote-first-bytes", place, float64(first.up)/1e6)
	r.note("remote-first-requests", place, float64(first.requests))
	r.note("remote-first-time", place, first.took.Seconds())
	if err := r.changeTen(tree, 1<<20); err != nil {
		return err
	}
	ten, err := r.during(func() error { return push(2) })
	if err != nil {
		return err
	}
	r.note("remote-push-bytes", place, float64(ten.up)/1e3)
	r.note("remote-push-requests", place, float64(ten.requests))
	r.note("remote-push-time", place, ms(ten.took))
	nothing, err := r.during(func() error { return push(3) })
	r.note("remote-nothing", place, float64(nothing.requests))
	return err
}

func (r *remoteBench) restic() error {
	if _, err := exec.LookPath("restic"); err != nil {
		fmt.Fprintln(os.Stderr, "without restic:", err)
		return nil
	}
	tree := filepath.Join(r.dir, "plain")
	if err := errors.Join(os.Mkdir(tree, 0o755), r.fillTree(tree)); err != nil {
		return err
	}
	env := []string{
		"RESTIC_REPOSITORY=s3:" + r.proxy.URL + "/amber/restic", "RESTIC_PASSWORD=x", "RESTIC_CACHE_DIR=" + filepath.Join(r.dir, "restic-cache"),
	}
	run := func(args ...string) error { return commandIn(r.ctx, tree, env, "restic", args...) }
	if err := run("init"); err != nil {
		return err
	}
	r.proxy.SetDelay(remoteDelay)
	defer r.proxy.SetDelay(0)
	return r.pushes("restic", tree, func(int) error { return run("backup", "-q", ".") })
}

func (r *remoteBench) amber() (err error) {
	url := "s3://amber/bench?endpoint=" + r.proxy.URL
	if err := os.Setenv("XDG_CACHE_HOME", filepath.Join(r.dir, "cache")); err != nil {
		return err
	}
	h, err := newAmberHistory(r.bench, filepath.Join(r.dir, "work"))
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, h.close())
		}
	}()
	if err := errors.Join(r.fillTree(h.root()), h.run("remote", "add", "origin", url)); err != nil {
		return err
	}
	r.proxy.SetDelay(remoteDelay)
	names := []string{"", "v1", "v2", "v2"}
	taken := ""
	err = r.pushes("amberfs", h.root(), func(n int) error {
		if names[n] != taken {
			if err := h.run("snapshot", names[n]); err != nil {
				return err
			}
			taken = names[n]
		}
		return h.run("push", "origin", names[n])
	})
	if err != nil {
		return err
	}
	if err := r.wake(h, url); err != nil {
		return err
	}
	closed = true
	if err := h.close(); err != nil {
		return err
	}
	if err := r.cold(url); err != nil {
		return err
	}
	return r.claims(url)
}

// elsewhere mounts from the remote with an empty cache, as another machine does.
func (r *remoteBench) elsewhere(name, url string, o string, do func(dir string) error) (err error) {
	if err := os.Setenv("XDG_CACHE_HOME", filepath.Join(r.dir, "cache-"+name)); err != nil {
		return err
	}
	dir, store := filepath.Join(r.dir, name), filepath.Join(r.dir, name+".store")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := command(r.bin, "mount", "-o", o, "--from", url, store, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, command(r.bin, "umount", dir), os.RemoveAll(store)) }()
	return do(dir)
}

func listed(dir string) error {
	_, err := os.ReadDir(dir)
	return err
}

func (r *remoteBench) cold(url string) error {
	start := time.Now()
	err := r.elsewhere("cold", url+"@v2", "prefetch=none", func(dir string) error {
		err := listed(dir)
		took := time.Since(start)
		r.note("remote-ls-time", "amberfs", ms(took))
		r.note("remote-ls-requests", "amberfs", float64(remotetest.InSequence(r.proxy.Served(start))))
		read := func(row string, i int) error {
			one, err := r.during(func() error { _, err := os.ReadFile(filepath.Join(dir, pathOf(i))); return err })
			r.note(row, "amberfs", ms(one.took))
			return err
		}
		err = errors.Join(err, read("remote-file-first", 0))
		time.Sleep(time.Second)
		return errors.Join(err, read("remote-file-later", r.n(100_000)/2))
	})
	if err != nil {
		return err
	}
	find, err := r.during(func() error {
		return r.elsewhere("find", url+"@v2", "prefetch=tree", func(dir string) error { return command("find", dir, "-size", "+100k") })
	})
	r.note("remote-find-time", "amberfs", find.took.Seconds())
	r.note("remote-find-requests", "amberfs", float64(find.requests))
	r.note("remote-find-bytes", "amberfs", float64(find.down)/1e6)
	return err
}

// wake is a sandbox that goes to sleep here and wakes elsewhere.
func (r *remoteBench) wake(h *amberHistory, url string) error {
	if err := errors.Join(r.changeTen(h.root(), 2<<20), h.run("snapshot", "v3")); err != nil {
		return err
	}
	start := time.Now()
	if err := h.run("push", "origin", "v3"); err != nil {
		return err
	}
	var took time.Duration
	err := r.elsewhere("awake", url+"@v3", "prefetch=none", func(dir string) error {
		err := listed(dir)
		took = time.Since(start)
		return err
	})
	r.note("remote-wake", "amberfs", took.Seconds())
	return err
}

// claims gets a thousand forks of a snapshot that is on the remote only, in one daemon.
func (r *remoteBench) claims(url string) (err error) {
	if err := os.Setenv("XDG_CACHE_HOME", filepath.Join(r.dir, "cache-claims")); err != nil {
		return err
	}
	h, err := newAmberHistory(r.bench, filepath.Join(r.dir, "node"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.run("remote", "add", "origin", url); err != nil {
		return err
	}
	claim := func(i int) error {
		request := fmt.Appendf(nil, `{"op":"claim","label":"box-%d","from":"origin@v2"}`, i)
		return os.WriteFile(h.control("call.bench"), request, 0o600)
	}
	look := func(i int) error {
		fork := filepath.Join(h.root(), ".forks", fmt.Sprintf("box-%d", i))
		_, err := os.ReadFile(filepath.Join(fork, pathOf(0)))
		return errors.Join(err, os.WriteFile(filepath.Join(fork, "mine"), nil, 0o644), listed(fork))
	}
	base := r.proxy.BytesDown.Load()
	one, err := r.during(func() error { return errors.Join(claim(0), look(0)) })
	if err != nil {
		return err
	}
	for quiet := r.proxy.BytesDown.Load(); ; quiet = r.proxy.BytesDown.Load() {
		time.Sleep(500 * time.Millisecond)
		if r.proxy.BytesDown.Load() == quiet {
			break
		}
	}
	first := r.proxy.BytesDown.Load() - base
	before, err := h.resident()
	if err != nil {
		return err
	}
	n := r.n(1000)
	all, err := r.during(func() error { return r.loop(n, func(i int) error { return claim(i + 1) }) })
	if err != nil {
		return err
	}
	if err := r.loop(n, func(i int) error { return look(i + 1) }); err != nil {
		return err
	}
	after, err := h.resident()
	r.note("remote-claims-time", "amberfs", (one.took + all.took).Seconds())
	r.note("remote-claims-bytes", "amberfs", float64(r.proxy.BytesDown.Load()-base)/float64(first))
	r.note("remote-claims-memory", "amberfs", (after-before)/1e3/float64(n))
	return err
}
