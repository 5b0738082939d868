package service

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// serve starts a server on the socket of a new store. ask sends a request as curl would, and end closes the server.
func serve(t *testing.T) (s *Service, ask func(method, path, body string) (int, string), end func() error) {
	t.Helper()
	s, dir := newService(t)
	server, err := s.Listen(dir, nil)
	must.OK(t, err)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, dir) }}
	end = sync.OnceValue(server.Close)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return s, func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, "http://amberfs"+path, strings.NewReader(body))
		must.OK(t, err)
		resp, err := transport.RoundTrip(r)
		must.OK(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		must.OK(t, err)
		return resp.StatusCode, string(b)
	}, end
}

func TestHTTP(t *testing.T) {
	s, ask, _ := serve(t)
	write(t, s, s.Store.Main(), "f", "one\n")
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"POST", "/v1/snapshot", `{"name":"v1","wait":true}`, 200, `"name":"v1"`},
		{"POST", "/v1/snapshot", `{"name":"v1"}`, 409, `"kind":"exists"`},
		{"POST", "/v1/list", "", 200, `{"snapshots":[{"name":"v1"`},
		{"POST", "/v1/list", `{"op":"list"}`, 200, `{"snapshots":[{"name":"v1"`},
		{"POST", "/v1/list", `{"op":"show"}`, 400, `in a request for list`},
		{"POST", "/v1/show", `{"name":"v1"}`, 200, `"stored":true`},
		{"POST", "/v1/show", `{"name":"v2"}`, 404, `"kind":"not-found"`},
		{"POST", "/v1/fork", `{"name":"try"}`, 200, `"path":"/mnt/.forks/try"`},
		{"POST", "/v1/snapshot?workspace=try", `{"name":"inside"}`, 200, `"name":"inside"`},
		{"POST", "/v1/list?workspace=try", "{}", 200, `"name":"inside"`},
		{"POST", "/v1/list?workspace=no", "{}", 404, `no such fork: no`},
		{"POST", "/v1/rename-fork", `{"from":"try","to":"other"}`, 200, `"path":"/mnt/.forks/other"`},
		{"POST", "/v1/rename-fork", `{"from":"try","to":"more"}`, 404, `"kind":"not-found"`},
		{"POST", "/v1/delete-fork", `{"name":"other"}`, 200, `"snapshot":"other"`},
		{"POST", "/v1/remove", `{"names":["other","other"]}`, 200, `{"names":["other"],"kept":"`},
		{"POST", "/v1/set-policy", `{"patch":{"manual_limit":3}}`, 200, `"manual_limit":3`},
		{"POST", "/v1/set-policy", `{"patch":{"manual_limit":"3"}}`, 400, `manual_limit must be a whole number, not a string`},
		{"POST", "/v1/history", `{"path":"f"}`, 200, `"action":"created"`},
		{"POST", "/v1/restore", `{`, 400, `"kind":"usage"`},
		{"POST", "/v1/restore", `{"name":"v1"} {}`, 400, `more than one JSON value`},
		{"POST", "/v1/restore", `{"name":"v1"}`, 200, `"changed":0`},
		{"POST", "/v1/freeze", `{"for":"0s"}`, 400, `such as 30s`},
		{"POST", "/v1/freeze", `{"for":1000000}`, 400, `for must be a string`},
		{"POST", "/v1/thaw", "", 200, `{"thawed":false}`},
		{"POST", "/v1/nothing", "", 404, `no such operation: \"nothing\"`},
		{"POST", "/v1/resotre", "", 404, `did you mean \"restore\"?`},
		{"GET", "/v1/restore", "", 405, `restore takes POST`},
		{"GET", "/v1/events?follow=maybe", "", 400, `the query parameter follow is`},
		{"GET", "/v1/diff?a=v1&a=v1", "", 400, `can be given only once`},
	} {
		status, answer := ask(c.method, c.path, c.body)
		if status != c.status || !strings.Contains(answer, c.answer) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, status, answer, c.status, c.answer)
		}
	}
}

func TestHTTPStreams(t *testing.T) {
	s, ask, _ := serve(t)
	write(t, s, s.Store.Main(), "f", "one\n")
	ask("POST", "/v1/snapshot", `{"name":"v1"}`)
	write(t, s, s.Store.Main(), "f", "two\n")
	if status, text := ask("GET", "/v1/diff?a=v1", ""); status != 200 || !strings.Contains(text, "-one\n+two\n") {
		t.Errorf("diff: %d %s", status, text)
	}
	if status, text := ask("GET", "/v1/diff?a=no", ""); status != 404 || !strings.Contains(text, `"error":`) {
		t.Errorf("diff of nothing: %d %s", status, text)
	}
	status, archive := ask("GET", "/v1/tar?name=v1", "")
	if status != 200 {
		t.Fatalf("tar: %d %s", status, archive)
	}
	status, answer := ask("POST", "/v1/import?from=tar&path=copy", archive)
	if status != 200 || !strings.Contains(answer, `"path":"copy","files":2`) {
		t.Errorf("import: %d %s", status, answer)
	}
	if status, text := ask("GET", "/v1/diff?a=v1&paths=copy", ""); status != 200 || !strings.Contains(text, "+++ b/copy/f\n") {
		t.Errorf("diff after the import: %d %s", status, text)
	}
}

// TestMisspelt: every operation refuses a request with an unknown field or parameter, and does nothing.
func TestMisspelt(t *testing.T) {
	s, ask, _ := serve(t)
	s.Mount.Umount = func(bool) error { t.Error("a misspelt request unmounted"); return nil }
	for _, o := range ops {
		requests := []struct{ method, path, body string }{
			{"POST", "/v1/" + o.Name, `{"naem":"x"}`},
			{"POST", "/v1/" + o.Name + "?worksapce=try", `{}`},
			{"POST", "/v1/" + o.Name + "?naem=x", `{}`},
		}
		if o.Input != "" {
			requests = requests[1:] // the body is not JSON
		}
		if o.Output != "" {
			requests = append(requests, struct{ method, path, body string }{"GET", "/v1/" + o.Name + "?naem=x", ""})
		}
		for _, r := range requests {
			status, answer := ask(r.method, r.path, r.body)
			if status != 400 || !strings.Contains(answer, `\"naem\"`) && !strings.Contains(answer, `\"worksapce\"`) {
				t.Errorf("%s %s %s: %d %s", r.method, r.path, r.body, status, answer)
			}
		}
		a, err := call(t, s, me, s.Store.Main(), `{"op":"`+o.Name+`","naem":"x"}`)
		if err == nil || a.Kind != errs.Invalid || !strings.Contains(a.Msg, `unknown field "naem"`) {
			t.Errorf("call %s: %+v", o.Name, a.Error)
		}
	}
}

func TestEventsAreSSE(t *testing.T) {
	s, _, _ := serve(t)
	conn, err := Dial(context.Background(), s.Store.Dir())
	must.OK(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET /v1/events?follow=true HTTP/1.1\r\nHost: amberfs\r\n\r\n")
	for _, path := range []string{"a", "b"} {
		s.Events.Record(events.Event{Action: events.Created, Path: path, Workspace: s.Store.Main().View()})
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%v, %v", resp, err)
	}
	lines := bufio.NewReader(resp.Body)
	for _, path := range []string{"a", "b"} {
		line, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "data: {") || !strings.Contains(line, `"path":"`+path+`"`) {
			t.Errorf("event %q, %v", line, err)
		}
		if line, err = lines.ReadString('\n'); line != "\n" {
			t.Errorf("after an event %q, %v", line, err)
		}
	}
}

// TestCloseWithStalledReader: a client that does not read its answer does not block Close.
func TestCloseWithStalledReader(t *testing.T) {
	s, ask, end := serve(t)
	write(t, s, s.Store.Main(), "f", strings.Repeat("many lines\n", 1<<19))
	ask("POST", "/v1/snapshot", `{"name":"v1"}`)
	for range 5 {
		conn, err := Dial(context.Background(), s.Store.Dir())
		must.OK(t, err)
		defer conn.Close()
		fmt.Fprint(conn, "GET /v1/tar?name=v1 HTTP/1.1\r\nHost: amberfs\r\n\r\n")
	}
	for _, begun := range []string{"", "GET /v1/sta", "POST /v1/import?from=tar HTTP/1.1\r\nHost: amberfs\r\nContent-Length: 1000000\r\n\r\nx"} {
		conn, err := Dial(context.Background(), s.Store.Dir())
		must.OK(t, err)
		defer conn.Close()
		fmt.Fprint(conn, begun)
	}
	await.Blocked(t, 6, "(*Server).serve") // five tars and the import are running
	closed := make(chan error, 1)
	go func() { closed <- end() }()
	if err := await.Receive(t, "closing", closed); err != nil { // http.Server.Shutdown alone would wait for the clients
		t.Error(err)
	}
}

// TestCloseAnswers: a caller gets its answer even if the request closes the server.
func TestCloseAnswers(t *testing.T) {
	s, ask, end := serve(t)
	ending := make(chan struct{})
	s.Mount.Umount = func(bool) error {
		go func() { _ = end() }()
		close(ending)
		await.Blocked(t, 1, "(*Server).Shutdown")
		return nil
	}
	status, body := ask("POST", "/v1/umount", "{}")
	if <-ending; status != 200 || !strings.Contains(body, `"pid"`) {
		t.Errorf("%d %s", status, body)
	}
}

func TestSocketIsItsOwners(t *testing.T) {
	s, _, _ := serve(t)
	st, err := os.Stat(filepath.Join(s.Store.Dir(), SocketName))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	_, err = Dial(context.Background(), t.TempDir())
	if errs.ScriptKind(err) != errs.NotExist {
		t.Errorf("a store without a daemon: %v", err)
	}
}

// TestSocketInADeepDirectory: the path of a store may be longer than the address of a socket.
func TestSocketInADeepDirectory(t *testing.T) {
	s, _ := newService(t)
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	must.OK(t, os.MkdirAll(dir, 0o755))
	server, err := s.Listen(dir, nil)
	must.OK(t, err)
	defer server.Close()
	conn, err := Dial(context.Background(), dir)
	must.OK(t, err)
	conn.Close()
}

// TestProgress: a client that accepts events gets the progress of a request, and then the result.
func TestProgress(t *testing.T) {
	s, _, _ := serve(t)
	write(t, s, s.Store.Main(), "f", "one\n")
	conn, err := Dial(context.Background(), s.Store.Dir())
	must.OK(t, err)
	defer conn.Close()
	body := `{"name":"v1","wait":true}`
	fmt.Fprintf(conn, "POST /v1/snapshot HTTP/1.1\r\nHost: amberfs\r\nAccept: %s\r\nContent-Length: %d\r\n\r\n%s", Events, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.OK(t, err)
	text, err := io.ReadAll(resp.Body)
	if err != nil || !regexp.MustCompile(`(?s)^event: progress\ndata: {"what":.*event: result\ndata: {"name":"v1".*}\n\n$`).Match(text) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestMountOfAnother: the daemon refuses a request with the device of another mount than its own. Any mount can name
// the store as its source.
func TestMountOfAnother(t *testing.T) {
	s, dir := newService(t)
	var here atomic.Value
	here.Store("")
	s.Mount.Device = func() string { return here.Load().(string) }
	server, err := s.Listen(dir, nil)
	must.OK(t, err)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, dir) }}
	defer func() {
		transport.CloseIdleConnections()
		must.OK(t, server.Close())
	}()

	for i, c := range []struct {
		there, here string
		want        int
	}{
		{"", "0:50", http.StatusOK}, // the store was found without a mount
		{"0:50", "", http.StatusOK}, // the daemon does not know its device
		{"0:50", "0:50", http.StatusOK},
		{"0:51", "0:50", http.StatusForbidden},
	} {
		here.Store(c.here)
		r, err := http.NewRequest("POST", "http://amberfs/v1/snapshot", strings.NewReader(fmt.Sprintf(`{"name":"v%d"}`, i)))
		must.OK(t, err)
		r.Header.Set(DeviceHeader, c.there)
		resp, err := transport.RoundTrip(r)
		must.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("by %q, of a daemon at %q: %d", c.there, c.here, resp.StatusCode)
		}
	}
	if list := s.Store.Main().List(); len(list) != 3 {
		t.Errorf("%d snapshots", len(list))
	}
}
