// Package extremes_test runs every operation on files and trees that are as large as they can
// be made in a moment, with the daemon in 512 MiB of memory: each ends, with an answer or a
// refusal, and the daemon lives.
package extremes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

const (
	memory = 512 << 20
	quota  = 100_000_000
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A world is a mount, with the inputs in main and in a fork.
type world struct {
	*harness.Mount
	t     *testing.T
	kills func() int64
	http  *http.Client
}

// patience is how long one request may take before it is taken for endless. git compresses 5 GiB
// for an export.
var patience = 3 * time.Minute

func init() {
	if harness.Long() {
		patience = 20 * time.Minute
	}
}

func newWorld(t *testing.T, extra ...string) *world {
	w := &world{Mount: harness.At(t, ""), t: t}
	kills, peak := harness.LimitMemory(t, w.Mount, memory)
	w.kills = kills
	if len(extra) > 0 {
		w.directory(extra[1], false)
	}
	w.Start(extra...)
	t.Cleanup(func() { t.Logf("the daemon and git had %d MiB at the most", peak()>>20) })
	w.http = &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(w.Store, "socket"))
	}}}
	return w
}

// within fails the test when fn takes too long: it says what hangs.
func (w *world) within(what string, fn func()) {
	w.t.Helper()
	if testing.Verbose() {
		w.t.Log(time.Now().Format(time.TimeOnly), what)
	}
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(patience):
		w.t.Fatalf("%s takes more than %v", what, patience)
	}
	if n := w.kills(); n != 0 {
		w.t.Fatalf("%s: a process was killed for want of memory", what)
	}
	if _, err := os.Stat(w.Path(".snapshots", "README")); err != nil {
		w.t.Fatalf("after %s the mount does not answer: %v", what, err)
	}
}

// change makes the first or the second form of the inputs in a workspace.
func (w *world) change(ws string, second bool) {
	t := w.t
	file := func(name string, fn func(f *os.File) error) {
		w.within("writing "+name, func() {
			f, err := os.OpenFile(filepath.Join(ws, name), os.O_RDWR|os.O_CREATE, 0o644)
			if err == nil {
				err = errors.Join(fn(f), f.Close())
			}
			if err != nil && !errors.Is(err, unix.EDQUOT) {
				t.Errorf("writing %s: %v", name, err)
			}
		})
	}
	mark := func(off int64) func(f *os.File) error {
		return func(f *os.File) error { _, err := f.WriteAt([]byte("second\n"), off); return err }
	}
	text := func(name, piece string, n int) {
		file(name, func(f *os.File) error {
			if second {
				return mark(int64(n / 2))(f)
			}
			_, err := f.WriteString(strings.Repeat(piece, n/len(piece)))
			return err
		})
	}
	file("holes", func(f *os.File) error {
		if second {
			return mark(1 << 61)(f)
		}
		return errors.Join(f.Truncate(1<<62-1), mark(100)(f))
	})
	file("5GiB", func(f *os.File) error {
		if second {
			return mark(300 << 20)(f)
		}
		piece := make([]byte, 8<<20)
		for i := range piece {
			piece[i] = byte(i * i >> 7)
		}
		_, err := f.Write(piece)
		return errors.Join(err, double(f, int64(len(piece)), int64(harness.Count(t, "MIB", 64, 5<<10))<<20))
	})
	file("extents", func(f *os.File) error {
		if second {
			return mark(1 << 20)(f)
		}
		for i := range int64(2048) {
			if _, err := f.WriteAt([]byte{'x'}, 2*i); err != nil {
				return err
			}
		}
		return double(f, 4096, int64(harness.Count(t, "EXTENTS", 1<<16, 4<<20))*2)
	})
	size := harness.Count(t, "BYTES", 8_000_000, 40_000_000)
	text("newlines", "\n", size)
	text("line", "x", size)
	file(".gitattributes", func(f *os.File) error { _, err := f.WriteString("newlines text\n"); return err })
	names := harness.Count(t, "NAMES", 300, 100_000)
	must(t, os.MkdirAll(filepath.Join(ws, "names"), 0o755))
	w.within("creating names", func() {
		for i := range names {
			if second && i%10 > 0 {
				continue
			}
			if err := os.WriteFile(filepath.Join(ws, "names", fmt.Sprintf("%0100d", i)), []byte(fmt.Sprint(second)), 0o644); err != nil {
				if !errors.Is(err, unix.EDQUOT) {
					t.Error(err)
				}
				break
			}
		}
	})
}

// double copies the beginning of a file to its end until it has so many bytes.
func double(f *os.File, has, most int64) error {
	for has < most {
		from, to := int64(0), has
		n, err := unix.CopyFileRange(int(f.Fd()), &from, int(f.Fd()), &to, int(min(has, most-has)), 0)
		if err != nil || n == 0 {
			return err
		}
		has += int64(n)
	}
	return nil
}

// inputs makes snapshots named first, second and empty.
func (w *world) inputs(ws string) {
	message := strings.Repeat("message ", 7<<10)
	for i, name := range []string{"empty", "first", "second"} {
		if i > 0 {
			w.change(ws, i == 2)
		}
		w.call(ws, map[string]any{"op": "snapshot", "name": name, "message": message})
	}
}

// call makes a request to the control file call of a workspace and reads the answer.
func (w *world) call(ws string, request map[string]any) {
	text, err := json.Marshal(request)
	must(w.t, err)
	name := filepath.Join(ws, ".snapshots", "call.x")
	w.within(fmt.Sprintf("%.200s in %s", text, filepath.Base(ws)), func() {
		_ = os.WriteFile(name, append(text, '\n'), 0o644) // many are refused
		_, _ = os.ReadFile(name)
		_, _ = os.ReadFile(name + ".stream")
	})
}

var paths = []string{"holes", "5GiB", "extents", "newlines", "line", "names", "."}

// requests are the arguments to make of each operation, by its name.
func requests() map[string][]map[string]any {
	type args = map[string]any
	out := make(map[string][]map[string]any)
	add := func(op string, all ...args) { out[op] = append(out[op], all...) }
	for _, op := range []string{"list", "forks", "actors", "policy", "status", "du", "remotes", "image"} {
		add(op, args{})
	}
	pairs := []args{{"a": "empty", "b": "first"}, {"a": "first", "b": "second"}, {"a": "second", "b": "empty"}, {"a": "empty"}}
	for _, p := range pairs {
		add("changes", p)
		for _, format := range []string{"patch", "stat", "name-status"} {
			add("diff", args{"a": p["a"], "b": p["b"], "format": format, "width": 1 << 40}, args{"a": p["a"], "b": p["b"], "format": format, "binary": true})
		}
	}
	add("summaries", args{"names": []string{"first", "second"}})
	add("show", args{"name": "second"})
	for _, path := range paths {
		add("blame", args{"path": path})
		add("history", args{"path": path, "all": true})
		add("size", args{"name": "first", "path": path}, args{"path": path})
		add("file", args{"path": path, "limit": 1 << 40}, args{"path": path, "offset": 1 << 60, "limit": 1000})
		add("hunks", args{"a": "first", "b": "second", "path": path}, args{"a": "empty", "path": path, "lines": 1 << 30})
		add("diff", args{"a": "first", "b": "second", "paths": []string{path}})
		add("revert", args{"name": "first", "path": path})
		add("restore-hunk", args{"name": "first", "path": path, "id": "0000000000000000"})
		add("conflict", args{"fork": "inner", "path": path})
	}
	add("restore", args{"name": "first", "dry_run": true}, args{"name": "first"}, args{"name": "second"})
	add("undo-by", args{"by": "unknown", "dry_run": true}, args{"by": "root", "dry_run": true})
	add("merge", args{"fork": "inner", "dry_run": true})
	add("compact", args{"names": []string{"first", "second"}, "dry_run": true})
	add("events", args{"limit": 10000})
	add("export", args{"name": "second"})
	add("snapshot", args{"name": "third"})
	add("rename", args{"from": "third", "to": "fourth"})
	add("pin", args{"names": []string{"fourth"}})
	add("fork", args{"name": "other", "snapshot": "second"})
	add("claim", args{"label": "other"})
	add("rename-fork", args{"from": "other", "to": "another"})
	add("delete-fork", args{"name": "another"})
	add("remove", args{"names": []string{"fourth"}})
	add("actor", args{"name": "somebody"})
	add("set-policy", args{"patch": args{}})
	add("exported", args{"name": "second", "repo": "/r", "ref": "r", "commit": strings.Repeat("0", 40)})
	add("push", args{"snapshots": []string{"second"}})
	add("pull", args{"remote": "none"})
	add("freeze", args{"seconds": 1})
	add("thaw", args{})
	add("gc", args{})
	add("verify", args{})
	return out
}

// apart are operations that only the socket has, with the query or body of a request.
var apart = map[string]string{"tar": "name=second", "layer": "name=second", "objects": `{"hashes":[]}`}

// TestEveryOperationIsTried: an operation that is added is added here.
func TestEveryOperationIsTried(t *testing.T) {
	b, err := os.ReadFile("../../docs/api/openapi.yaml")
	must(t, err)
	tried := requests()
	ops := map[string]bool{"umount": true} // by the harness
	for _, c := range slices.Concat(commands, ofDirectory, ofRuns) {
		for _, op := range strings.Fields(c.ops) {
			ops[op] = true
		}
	}
	for _, m := range regexp.MustCompile(`operationId: (?:get-)?([a-z-]+)`).FindAllStringSubmatch(string(b), -1) {
		if _, ok := apart[m[1]]; !ok && tried[m[1]] == nil && !ops[m[1]] {
			t.Errorf("%s is not tried", m[1])
		}
	}
}

// TestExtremes makes each request in main and in a fork that may have 100 MB of its own.
func TestExtremes(t *testing.T) {
	harness.Needs(t, "git")
	w := newWorld(t)
	must(t, os.WriteFile(w.Path(".snapshots", "policy"), []byte(fmt.Sprintf(`{"forks":{"unshared_bytes":%d}}`, quota)), 0o644))
	fork := w.Path(".forks", "f")
	must(t, os.Mkdir(fork, 0o755))
	for _, ws := range []string{fork, w.Dir} {
		w.inputs(ws)
		inner := filepath.Join(ws, ".forks", "inner")
		w.within("a fork", func() { must(t, os.Mkdir(inner, 0o755)) })
		for _, name := range []string{"holes", "5GiB", "newlines", "line"} {
			w.within("changing "+name, func() {
				for i, at := range []string{ws, inner} {
					f, err := os.OpenFile(filepath.Join(at, name), os.O_WRONLY, 0)
					if err == nil {
						_, err = f.WriteAt([]byte(fmt.Sprintf("side %d\n", i)), int64(i*1000))
						err = errors.Join(err, f.Close())
					}
					if err != nil && !errors.Is(err, unix.EDQUOT) && !errors.Is(err, os.ErrNotExist) {
						t.Error(err)
					}
				}
			})
		}
		tried := requests()
		for _, op := range order(tried) {
			for i, args := range tried[op] {
				// Two forms of an operation in the short form, other ones in the fork.
				if other := ws == fork; !harness.Long() && i%3 > 0 && (i%3 == 1) != other {
					continue
				}
				args["op"] = op
				w.call(ws, args)
			}
		}
		w.controls(ws)
	}
	w.streams()
	w.page()
	w.within("the end of the fork", func() { _ = unix.Rmdir(fork) })
	w.within("a snapshot of main", func() { must(t, os.Mkdir(w.Path(".snapshots", "last"), 0o755)) })
}

// order puts what reads before what changes.
func order(tried map[string][]map[string]any) []string {
	var reads, changes []string
	for op := range tried {
		switch op {
		case "snapshot", "rename", "pin", "fork", "claim", "rename-fork", "delete-fork", "remove", "restore", "revert", "export", "gc", "verify":
		default:
			reads = append(reads, op)
		}
	}
	slices.Sort(reads)
	changes = []string{"export", "snapshot", "rename", "pin", "fork", "claim", "rename-fork", "delete-fork", "remove", "revert", "restore", "gc", "verify"}
	return append(reads, changes...)
}

// controls uses each control file.
func (w *world) controls(ws string) {
	for _, name := range []string{
		"README", "list", "log", "status", "policy", "latest", "undo", "diff@empty", "diff@first..second", "diff@second..empty",
		"stat@empty", "stat@first..second", "info@second", "base",
	} {
		w.within("reading "+name+" in "+filepath.Base(ws), func() {
			f, err := os.Open(filepath.Join(ws, ".snapshots", name))
			if err != nil {
				return
			}
			defer f.Close()
			_, _ = io.Copy(io.Discard, f)
		})
	}
	for _, line := range []string{"create bye", "export second", "restore second holes", "fork second third", "push second", "call {}"} {
		name, text, _ := strings.Cut(line, " ")
		w.within("writing "+line+" in "+filepath.Base(ws), func() { _ = os.WriteFile(filepath.Join(ws, ".snapshots", name), []byte(text+"\n"), 0o644) })
	}
}

// streams reads archives over the socket, and exports to a repository and an image as a client.
func (w *world) streams() {
	for _, ws := range []string{"", "f"} {
		for op, query := range apart {
			if query == "" {
				continue
			}
			w.within(op+" of "+ws, func() {
				var body io.Reader = bytes.NewReader(nil)
				method, at := http.MethodGet, "http://amberfs/v1/"+op+"?"+query+"&workspace="+ws
				if strings.HasPrefix(query, "{") {
					method, body, at = http.MethodPost, strings.NewReader(query), "http://amberfs/v1/"+op+"?workspace="+ws
				}
				req, err := http.NewRequest(method, at, body)
				must(w.t, err)
				resp, err := w.http.Do(req)
				if err != nil {
					w.t.Errorf("%s of %q: %v", op, ws, err)
					return
				}
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				if err != nil {
					w.t.Errorf("%s of %q: %v", op, ws, err)
				}
			})
		}
	}
	dir := w.t.TempDir()
	out, err := exec.Command("git", "init", "-q", filepath.Join(dir, "repo")).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s", out)
	}
	w.directory(filepath.Join(dir, "from"), false)
	w.run(dir, commands)
}

// page makes the requests of the page in the browser, which is a process of its own.
func (w *world) page() {
	cmd := exec.Command(harness.Binary(w.t), "ui", "-C", w.Dir)
	out, err := cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	buf := make([]byte, 4096)
	n, _ := out.Read(buf)
	found := regexp.MustCompile(`http://([^/\s]+):(\d+)/#token=(\S+)`).FindStringSubmatch(string(buf[:n]))
	if found == nil {
		w.t.Fatalf("no address in %q", buf[:n])
	}
	key := ""
	ask := func(method, path, body string) (answer []byte) {
		req, err := http.NewRequest(method, "http://127.0.0.1:"+found[2]+path, strings.NewReader(body))
		must(w.t, err)
		req.Host = found[1]
		req.Header.Set("Amberfs-Session", key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Timeout: patience}).Do(req)
		if err != nil {
			w.t.Errorf("%s %s: %v", method, path, err)
			return nil
		}
		defer resp.Body.Close()
		answer, err = io.ReadAll(resp.Body)
		if err != nil {
			w.t.Errorf("%s %s: %v", method, path, err)
		}
		return answer
	}
	var session struct{ Key string }
	must(w.t, json.Unmarshal(ask(http.MethodPost, "/session", fmt.Sprintf(`{"token":%q}`, found[3])), &session))
	key = session.Key
	for _, ws := range []string{"", "f"} {
		for i, path := range paths[:5] {
			if !harness.Long() && (ws == "") != (i%2 == 0) {
				continue
			}
			query := "workspace=" + ws + "&path=" + path
			for _, at := range []string{"/file?lines=10&", "/file?lines=2000&from=1000000&", "/diff?a=first&b=second&", "/diff?a=empty&lines=2000&", "/image?"} {
				w.within(at+query, func() { ask(http.MethodGet, at+query, "") })
			}
		}
		for _, op := range []string{"list", "summaries", "changes", "history", "blame", "events", "forks", "status"} {
			for i, args := range requests()[op] {
				if !harness.Long() && i > 1 {
					break
				}
				text, err := json.Marshal(args)
				must(w.t, err)
				w.within(op+" of the page", func() { ask(http.MethodPost, "/api/v1/"+op+"?workspace="+ws, string(text)) })
			}
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	must(w.t, err)
	var kib int64
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(rest, &kib)
	must(w.t, err)
	if kib<<10 > memory {
		w.t.Errorf("the page took %d MiB", kib>>10)
	}
}
