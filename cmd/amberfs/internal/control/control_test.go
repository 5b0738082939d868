package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

// start serves h in a directory whose path is longer than a socket address.
func start(t *testing.T, h Handler) (dir string, s *Server) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(dir, h, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return dir, s
}

func dial(t *testing.T, dir string) *Client {
	t.Helper()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestExchange(t *testing.T) {
	big := bytes.Repeat([]byte("raw\n{\"data\":1}\n"), 200_000) // several pieces, looking like lines
	dir, _ := start(t, func(ctx context.Context, c *Call) (any, error) {
		if c.Op != "all" || len(c.Workspace) != 1 || c.Workspace[0] != "f" || c.Command != "amberfs test" {
			t.Errorf("request = %+v", c.Request)
		}
		if c.Peer.UID != uint32(os.Getuid()) || c.Peer.PID != os.Getpid() {
			t.Errorf("peer = %+v", c.Peer)
		}
		var args struct{ Name string }
		if err := c.Decode(&args); err != nil {
			return nil, err
		}
		c.Progress(Progress{What: "working", Done: 1, Total: 1})
		for i := range 3 {
			if err := c.Item(map[string]int{"i": i}); err != nil {
				return nil, err
			}
		}
		if _, err := c.Write(big); err != nil {
			return nil, err
		}
		return map[string]string{"name": args.Name}, nil
	})
	c := dial(t, dir)
	if c.DaemonPID() != os.Getpid() {
		t.Errorf("DaemonPID = %d", c.DaemonPID())
	}
	var items []string
	var out bytes.Buffer
	progress := 0
	var result struct{ Name string }
	err := c.Do(context.Background(), Exchange{
		Request:    Request{Op: "all", Workspace: []string{"f"}, Args: json.RawMessage(`{"Name":"v1"}`), Command: "amberfs test"},
		OnProgress: func(Progress) { progress++ },
		OnItem:     func(m json.RawMessage) error { items = append(items, string(m)); return nil },
		Output:     &out,
	}, &result)
	if err != nil {
		t.Fatal(err)
	}
	if result.Name != "v1" || progress != 1 || len(items) != 3 || items[2] != `{"i":2}` {
		t.Errorf("result %+v, %d progress, items %v", result, progress, items)
	}
	if !bytes.Equal(out.Bytes(), big) {
		t.Errorf("raw bytes changed on the way: %d of %d", out.Len(), len(big))
	}
}

func TestErrors(t *testing.T) {
	dir, _ := start(t, func(ctx context.Context, c *Call) (any, error) {
		switch c.Op {
		case "panic":
			panic("boom")
		case "conflict":
			return nil, &ResultError{Err: fail.New(fail.Failed, "conflicts"), Result: map[string]any{"conflicts": []string{"a"}}}
		}
		return nil, fail.New(fail.NotFound, "no snapshot v9").WithHint("see `amberfs list`")
	})
	err := dial(t, dir).Do(context.Background(), Exchange{Request: Request{Op: "x"}}, nil)
	var e *fail.Error
	if !errors.As(err, &e) || e.Kind != fail.NotFound || e.Msg != "no snapshot v9" || e.Hint != "see `amberfs list`" {
		t.Errorf("error = %#v", err)
	}
	var r struct{ Conflicts []string }
	err = dial(t, dir).Do(context.Background(), Exchange{Request: Request{Op: "conflict"}}, &r)
	if fail.KindOf(err) != fail.Failed || len(r.Conflicts) != 1 {
		t.Errorf("conflict: %v, %+v", err, r)
	}
	if err := dial(t, dir).Do(context.Background(), Exchange{Request: Request{Op: "panic"}}, nil); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("panic: %v", err)
	}
}

func TestInput(t *testing.T) {
	dir, _ := start(t, func(ctx context.Context, c *Call) (any, error) {
		b, err := io.ReadAll(c.Input())
		return len(b), err
	})
	var n int
	err := dial(t, dir).Do(context.Background(), Exchange{
		Request: Request{Op: "import"}, Input: bytes.NewReader(make([]byte, 3<<20+7)),
	}, &n)
	if err != nil || n != 3<<20+7 {
		t.Errorf("the daemon read %d bytes, %v", n, err)
	}
	// An input that fails half way must not look whole.
	bad := io.MultiReader(strings.NewReader("half"), errReader{})
	if err := dial(t, dir).Do(context.Background(), Exchange{Request: Request{Op: "import"}, Input: bad}, &n); err == nil {
		t.Error("half an input was accepted")
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("disk gone") }

func TestHangUpCancels(t *testing.T) {
	cancelled := make(chan struct{})
	dir, _ := start(t, func(ctx context.Context, c *Call) (any, error) {
		<-ctx.Done()
		close(cancelled)
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := dial(t, dir).Do(ctx, Exchange{Request: Request{Op: "wait"}}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do = %v", err)
	}
	select {
	case <-cancelled:
	case <-time.After(5 * time.Second):
		t.Fatal("the request went on")
	}
}

func TestCloseEndsCalls(t *testing.T) {
	dir, s := start(t, func(ctx context.Context, c *Call) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	busy, idle := dial(t, dir), dial(t, dir)
	done := make(chan error, 1)
	go func() { done <- busy.Do(context.Background(), Exchange{Request: Request{Op: "wait"}}, nil) }()
	time.Sleep(20 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the request succeeded")
	}
	if err := idle.WaitClosed(context.Background()); err != nil {
		t.Errorf("WaitClosed = %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, SocketName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
	if _, err := Dial(dir); fail.KindOf(err) != fail.NotFound {
		t.Errorf("Dial of a closed server = %v", err)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	dir, s := start(t, func(context.Context, *Call) (any, error) { return 1, nil })
	s.l.SetUnlinkOnClose(false)
	s.Close()
	if _, err := Dial(dir); err == nil {
		t.Fatal("a dead socket answers")
	}
	s2, err := Listen(dir, s.handler, s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer s2.Close()
	if err := dial(t, dir).Do(context.Background(), Exchange{Request: Request{Op: "x"}}, nil); err != nil {
		t.Error(err)
	}
}

func TestMalformedRequest(t *testing.T) {
	dir, _ := start(t, func(context.Context, *Call) (any, error) { return nil, nil })
	c := dial(t, dir)
	if _, err := c.conn.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c.conn)
	if err != nil || !strings.Contains(string(b), `"kind":"usage"`) {
		t.Errorf("answer = %q, %v", b, err)
	}
}

// TestCloseWithAStoppedClient: a command that is stopped, and reads nothing of a long
// answer, keeps no mount from ending.
func TestCloseWithAStoppedClient(t *testing.T) {
	for _, op := range []string{"pieces", "result"} {
		began := make(chan struct{})
		dir, s := start(t, func(_ context.Context, c *Call) (any, error) {
			close(began)
			if op == "result" {
				return strings.Repeat("x", 8<<20), nil
			}
			for {
				if _, err := c.Write(make([]byte, 1<<20)); err != nil {
					return nil, err
				}
			}
		})
		c := dial(t, dir)
		if err := writeLine(c.conn, Request{Op: op}); err != nil {
			t.Fatal(err)
		}
		<-began
		time.Sleep(50 * time.Millisecond) // until the socket is full
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(3 * time.Second):
			t.Errorf("%s: the server does not close", op)
			c.Close()
			<-closed
		}
	}
}
