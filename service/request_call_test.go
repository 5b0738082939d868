package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// newService returns a service on a new store, and the directory of the store.
func newService(t *testing.T) (*Service, string) {
	t.Helper()
	dir := t.TempDir()
	store, err := snapshot.Open(dir, snapshot.Options{Quiet: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mode: 0o755})
	must.OK(t, err)
	log := events.New(dir+"/events", events.Options{FS: vfs.OS, Logger: slog.New(slog.DiscardHandler)})
	must.OK(t, log.Load())
	t.Cleanup(func() {
		log.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(Config{
		Store: store, Events: log, Log: slog.New(slog.DiscardHandler),
		Mount: Mount{
			Point:     "/mnt",
			WaitReady: func(context.Context) error { return nil },
			ReadOnly:  func() bool { return false },
			Requests:  func() map[string]uint64 { return nil },
			Umount:    func(bool) error { return nil },
			Device:    func() string { return "" }, StaleNames: func() int64 { return 0 },
			ProgramsInside: func([]uint32, bool) []Program { return nil },
		},
		Daemon:      Daemon{Started: time.Now(), Survival: func() Survival { return Survival{} }},
		RequestDrop: func() {},
	}), dir
}

// TestNoForks: without forks, the result is an empty list and not null.
func TestNoForks(t *testing.T) {
	s, _ := newService(t)
	if b, err := answerTo(s, me, s.Store.Main(), `{"op":"forks"}`); err != nil || !strings.Contains(string(b), `"forks":[]`) {
		t.Errorf("%s, %v", b, err)
	}
}

// write writes a file in a workspace, and creates it if needed.
func write(t *testing.T, s *Service, ws *snapshot.Workspace, name, content string) {
	t.Helper()
	f := s.Store.Forest()
	a, err := f.Lookup(ws.Root(), name)
	if err != nil {
		if a, err = f.Create(ws.Root(), name, live.NewNode{Mode: 0o100644, Caller: me}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Write(a.ID, []byte(content), 0, false); err != nil {
		t.Fatal(err)
	}
}

var me = actors.Caller{UID: uint32(os.Geteuid())}

// call makes a request as a caller in the mount, and returns the decoded answer.
func call(t *testing.T, s *Service, who actors.Caller, ws *snapshot.Workspace, request string) (a Answer, err error) {
	t.Helper()
	line, err := answerTo(s, who, ws, request)
	a.Error = new(errs.Error)
	if jerr := json.Unmarshal(line, &a); jerr != nil {
		t.Fatalf("%s: %q: %v", request, line, jerr)
	}
	if a.OK != (err == nil) {
		t.Errorf("%s: %s, %v", request, line, err)
	}
	return a, err
}

// answerTo returns the answer to a request as the bytes in the control file.
func answerTo(s *Service, who actors.Caller, ws *snapshot.Workspace, request string) ([]byte, error) {
	var out bytes.Buffer
	var a Answer
	args, err := ParseCall([]byte(request))
	if err == nil {
		a, err = s.Call(context.Background(), &Request{Caller: who, Workspace: ws, Out: &out}, args)
	}
	if err != nil {
		a = FailedAnswer(err)
	}
	if !a.Inline(out.Bytes()) {
		a.Stream = true
	}
	line, jerr := json.Marshal(a)
	return line, errors.Join(err, jerr)
}

func TestCall(t *testing.T) {
	s, _ := newService(t)
	ws := s.Store.Main()
	write(t, s, ws, "f", "one\n")
	if _, err := call(t, s, me, ws, `{"op":"snapshot","name":"v1","message":"m","labels":{"k":"v"},"wait":true}`); err != nil {
		t.Fatal(err)
	}
	write(t, s, ws, "f", "two\n")
	a, err := call(t, s, me, ws, `{"op":"diff","a":"v1"}`)
	if err != nil || !strings.Contains(a.Text, "+two\n") {
		t.Errorf("diff: %q, %v", a.Text, err)
	}
	a, err = call(t, s, me, ws, `{"op":"history","path":"f"}`)
	if entries, _ := a.Result.(map[string]any)["entries"].([]any); err != nil || len(entries) != 2 {
		t.Errorf("history: %v, %v", a.Result, err)
	}
	if a, err = call(t, s, me, ws, `{"op":"restore","name":"v1"}`); err != nil || a.Result.(map[string]any)["changed"] != 1.0 {
		t.Errorf("restore: %v, %v", a.Result, err)
	}
	if a, err = call(t, s, me, ws, `{"op":"fork","name":"try"}`); err != nil || a.Result.(map[string]any)["path"] != ".forks/try" {
		t.Errorf("fork: %v, %v", a.Result, err)
	}
}

func TestCallRefuses(t *testing.T) {
	s, _ := newService(t)
	for request, kind := range map[string]errs.Kind{
		``:                                    errs.Invalid,
		`[]`:                                  errs.Invalid,
		`{}`:                                  errs.Invalid,
		`{"op":"no"}`:                         errs.Invalid,
		`{"op":"list","unknown":1}`:           errs.Invalid,
		`{"op":"show","name":"x"}`:            errs.NotExist,
		`{"op":"snapshot","name":"a/b"}`:      errs.Invalid,
		`{"op":"umount"}`:                     errs.Perm,
		`{"op":"objects","hashes":[]}`:        errs.Perm,
		`{"op":"set-policy","patch":{"a":1}}`: errs.Invalid,
	} {
		a, err := call(t, s, me, s.Store.Main(), request)
		if err == nil || a.Kind != kind || a.Msg == "" || errs.ScriptKind(err) != kind {
			t.Errorf("%s: %+v, %v, want %s", request, a.Error, err, kind)
		}
	}
}

// TestCallInAFork: a caller in a fork gets no information about the store, and cannot use the operations on the
// store.
func TestCallInAFork(t *testing.T) {
	s, dir := newService(t)
	fork, err := s.Store.Main().Forks().New(snapshot.ForkOptions{Name: "try", Caller: me})
	must.OK(t, err)
	line, err := answerTo(s, me, fork, `{"op":"status"}`)
	if err != nil || strings.Contains(string(line), dir) || strings.Contains(string(line), "/mnt") {
		t.Errorf("status: %s, %v", line, err)
	}
	for _, op := range []string{"gc", "verify", "freeze", "thaw"} {
		if a, err := call(t, s, me, fork, `{"op":"`+op+`"}`); err == nil || a.Kind != errs.Perm {
			t.Errorf("%s: %+v", op, a)
		}
	}
	// The answer does not reveal whether main has a remote with this name.
	if a, err := call(t, s, me, fork, `{"op":"set-policy","patch":{"push":{"remote":"team"}}}`); err == nil || a.Kind != errs.Perm {
		t.Errorf("a policy with a remote: %+v", a)
	}
	if a, err := call(t, s, me, fork, `{"op":"export","name":"base","ref":"refs/snapshots/v1"}`); err == nil || a.Kind != errs.Perm {
		t.Errorf("export to a ref of others: %+v", a)
	}
}

// TestCallOfStranger: a user who does not own the workspace does not get the contents of files.
func TestCallOfStranger(t *testing.T) {
	s, _ := newService(t)
	who := actors.Caller{UID: 4321}
	for _, request := range []string{`{"op":"diff","a":"base"}`, `{"op":"events"}`, `{"op":"history","path":"f"}`} {
		if a, err := call(t, s, who, s.Store.Main(), request); err == nil || a.Kind != errs.Perm {
			t.Errorf("%s: %+v", request, a)
		}
	}
	if _, err := call(t, s, who, s.Store.Main(), `{"op":"list"}`); err != nil {
		t.Error(err)
	}
}

func TestPolicyIsPatched(t *testing.T) {
	s, _ := newService(t)
	ws := s.Store.Main()
	if _, err := call(t, s, me, ws, `{"op":"set-policy","patch":{"protect":false,"manual_limit":5}}`); err != nil {
		t.Fatal(err)
	}
	before := ws.Policy()
	if _, err := call(t, s, me, ws, `{"op":"set-policy","patch":{"interval_seconds":7}}`); err != nil {
		t.Fatal(err)
	}
	before.IntervalSeconds = 7
	if got := ws.Policy(); !reflect.DeepEqual(got, before) {
		t.Errorf("policy %+v, want %+v", got, before)
	}
	if _, err := call(t, s, me, ws, `{"op":"set-policy","patch":{"manual_limit":6,"ringg":1}}`); err == nil || !reflect.DeepEqual(ws.Policy(), before) {
		t.Errorf("half a patch took effect: %+v, %v", ws.Policy(), err)
	}
}
