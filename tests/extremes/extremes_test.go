// Package extremes_test runs every operation on files and trees that are as large as they can
// be made in a moment, with the daemon in 512 MiB of memory: each ends, with an answer or a
// refusal, and the daemon lives.
package extremes_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// call makes a request to the control file call of a workspace and reads the answer.
func (w *world) call(ws, op string, request map[string]any) {
	request["op"] = op
	text, err := json.Marshal(request)
	must.OK(w.t, err)
	name := filepath.Join(ws, ".snapshots", "call.x")
	w.within(fmt.Sprintf("%.200s in %s", text, filepath.Base(ws)), func() {
		_ = os.WriteFile(name, append(text, '\n'), 0o644) // many are refused
		_, _ = os.ReadFile(name)
		_, _ = os.ReadFile(name + ".stream")
	})
}

// TestExtremes makes each request in main and in a fork that may have 100 MB of its own.
func TestExtremes(t *testing.T) {
	harness.SkipWithout(t, "git")
	w := newWorld(t)
	must.OK(t, os.WriteFile(w.Path(".snapshots", "policy"), []byte(fmt.Sprintf(`{"forks":{"unshared_bytes":%d}}`, quota)), 0o644))
	fork := w.Path(".forks", "f")
	must.OK(t, os.Mkdir(fork, 0o755))
	for _, ws := range []string{fork, w.Dir} {
		w.inputs(ws)
		inner := filepath.Join(ws, ".forks", "inner")
		w.within("a fork", func() { must.OK(t, os.Mkdir(inner, 0o755)) })
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
				if other := ws == fork; !harness.LongTests() && i%3 > 0 && (i%3 == 1) != other {
					continue
				}
				w.call(ws, op, args)
			}
		}
		w.controls(ws)
	}
	w.streams()
	w.page()
	for _, ws := range []string{fork, w.Dir} {
		w.call(ws, "compact", requests()["compact"][0])
	}
	w.within("the end of the fork", func() {
		inner, err := os.ReadDir(filepath.Join(fork, ".forks"))
		must.OK(t, err)
		for _, e := range inner {
			must.OK(t, unix.Rmdir(filepath.Join(fork, ".forks", e.Name())))
		}
		must.OK(t, unix.Rmdir(fork))
	})
	w.within("a snapshot of main", func() { must.OK(t, os.Mkdir(w.Path(".snapshots", "last"), 0o755)) })
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
				must.OK(w.t, err)
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
	must.OK(w.t, err)
	must.OK(w.t, cmd.Start())
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
		must.OK(w.t, err)
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
	must.OK(w.t, json.Unmarshal(ask(http.MethodPost, "/session", fmt.Sprintf(`{"token":%q}`, found[3])), &session))
	key = session.Key
	for _, ws := range []string{"", "f"} {
		for i, path := range paths[:5] {
			if !harness.LongTests() && (ws == "") != (i%2 == 0) {
				continue
			}
			query := "workspace=" + ws + "&path=" + path
			for _, at := range []string{"/file?lines=10&", "/file?lines=2000&from=1000000&", "/diff?a=first&b=second&", "/diff?a=empty&lines=2000&", "/image?"} {
				w.within(at+query, func() { ask(http.MethodGet, at+query, "") })
			}
		}
		for _, op := range []string{"list", "summaries", "changes", "history", "blame", "events", "forks", "status"} {
			for i, args := range requests()[op] {
				if !harness.LongTests() && i > 1 {
					break
				}
				text, err := json.Marshal(args)
				must.OK(w.t, err)
				w.within(op+" of the page", func() { ask(http.MethodPost, "/api/v1/"+op+"?workspace="+ws, string(text)) })
			}
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	must.OK(w.t, err)
	var kib int64
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(rest, &kib)
	must.OK(w.t, err)
	if kib<<10 > memory {
		w.t.Errorf("the page took %d MiB", kib>>10)
	}
}
