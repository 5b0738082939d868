package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// Open opens the event log in a directory.
func Open(dir string, o Options) (*Log, error) {
	l := New(dir, o)
	return l, l.Load()
}

func mustOpen(t testing.TB, fs vfs.FS, o Options) *Log {
	t.Helper()
	o.FS, o.Logger = fs, slog.New(slog.DiscardHandler)
	if o.QuietTime == 0 {
		o.QuietTime = time.Hour // only Flush writes
	}
	l, err := Open("/events", o)
	must.OK(t, err)
	return l
}

func all(t testing.TB, l *Log, view uint32) []Event {
	t.Helper()
	var es []Event
	must.OK(t, l.Read(view, 0, func(e Event) error { es = append(es, e); return nil }))
	return es
}

func TestLineIsAPromise(t *testing.T) {
	e := Event{
		Seq: 12, Time: time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC), Action: Renamed, Path: `a "b" <c>`, From: "old",
		Size: 99, UID: 1000, PID: 77, Command: "mv", Detail: "more", Workspace: 4, Node: 5,
	}
	b := appendLine(nil, &e)
	want := `{"seq":12,"time":"2026-02-03T04:05:06.000000789Z","action":"renamed","path":"a \"b\" <c>","from":"old",` +
		`"size":99,"uid":1000,"pid":77,"command":"mv","detail":"more"}` + "\n"
	if string(b) != want {
		t.Errorf("got  %swant %s", b, want)
	}
	if seq, action, ok := parseHead(b); !ok || seq != 12 || action != Renamed {
		t.Errorf("head: %d %q %v", seq, action, ok)
	}
	for _, bad := range []string{"", "{}", `{"seq":`, `{"seq":0,"action":"dropped"`, `{"seq":5,"action":"x`, "\x00\x00\n"} {
		if _, _, ok := parseHead([]byte(bad)); ok {
			t.Errorf("%q was taken for a line", bad)
		}
	}
}

func TestRecordAndRead(t *testing.T) {
	fs := vfstest.NewMem()
	files := map[uint64]string{10: "src/a.go"}
	o := Options{Resolve: func(view uint32, node uint64) (string, int64, bool) {
		p, ok := files[node]
		return p, int64(len(p)) * 100, ok && view == 1
	}}
	l := mustOpen(t, fs, o)
	l.Record(Event{Workspace: 1, Node: 10, Action: Created, Path: "a.tmp", PID: 5, Command: "ed"})
	for range 1000 {
		l.Record(Event{Workspace: 1, Node: 10, Action: Modified, PID: 5, Command: "ed"})
	}
	l.Record(Event{Workspace: 1, Node: 10, Action: Renamed, Path: "src/a.go", From: "a.tmp", PID: 5, Command: "ed"})
	l.Record(Event{Workspace: 1, Node: 10, Action: Modified, PID: 6, Command: "sh"}) // path from Resolve
	l.Record(Event{Workspace: 1, Node: 11, Action: Modified, PID: 6, Command: "sh"}) // path from what follows
	l.Record(Event{Workspace: 1, Node: 11, Action: Deleted, Path: "gone", PID: 6, Command: "rm"})
	l.Record(Event{Workspace: 1, Node: 12, Action: Modified, PID: 6, Command: "sh"}) // its path is unknown
	l.Record(Event{Workspace: 2, Node: 10, Action: Deleted, Path: "x", PID: 6, Command: "rm"})
	if got := l.LastSeq(1); got != 6 {
		t.Errorf("last number is %d", got)
	}
	check := func(l *Log) {
		t.Helper()
		var got []string
		for _, e := range all(t, l, 1) {
			if e.Workspace != 1 || e.Time.IsZero() {
				t.Errorf("event %+v", e)
			}
			got = append(got, fmt.Sprintf("%d %s %s<%s %d %s", e.Seq, e.Action, e.Path, e.From, e.Size, e.Command))
		}
		want := "1 created a.tmp< 800 ed, 2 renamed src/a.go<a.tmp 0 ed, 3 modified src/a.go< 800 sh, 4 modified gone< 0 sh, 5 deleted gone< 0 rm"
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("got  %s\nwant %s", s, want)
		}
		if n := len(all(t, l, 2)); n != 1 {
			t.Errorf("workspace 2 has %d events", n)
		}
		if n := len(all(t, l, 3)); n != 0 {
			t.Errorf("workspace 3 has %d events", n)
		}
	}
	check(l)
	must.OK(t, l.Close())
	l.Record(Event{Workspace: 1, Action: Deleted, Path: "late"})
	check(mustOpen(t, fs, o))
}

func TestReadFromAndStop(t *testing.T) {
	l := mustOpen(t, vfstest.NewMem(), Options{SegmentSize: 300})
	for i := range 50 {
		l.Record(Event{Workspace: 1, Action: Created, Path: fmt.Sprint(i)})
		if i%3 == 0 {
			must.OK(t, l.Flush())
		}
	}
	for after := range uint64(51) {
		n := after
		err := l.Read(1, after, func(e Event) error {
			n++
			if e.Seq != n || e.Path != fmt.Sprint(n-1) {
				t.Fatalf("event %d after %d: %+v", n, after, e)
			}
			return nil
		})
		if err != nil || n != 50 {
			t.Fatalf("after %d: up to %d, %v", after, n, err)
		}
	}
	stop := errors.New("stop")
	if err := l.Read(1, 0, func(Event) error { return stop }); err != stop {
		t.Fatal(err)
	}
}

func TestCapturedCountsSinceTheOneBefore(t *testing.T) {
	fs := vfstest.NewMem()
	o := Options{SegmentSize: 200}
	l := mustOpen(t, fs, o)
	add := func(actions ...string) {
		for i, a := range actions {
			l.Record(Event{Workspace: 1, Node: uint64(100 + i), Action: a, Path: "p", From: "q"})
		}
	}
	add(Created, Created, Deleted)
	if s := l.RecordCapture(Event{Workspace: 1, From: "v1"}); s != (Span{1, 4, info.Counts{Created: 2, Deleted: 1}}) {
		t.Errorf("first: %+v", s)
	}
	add(Modified, Renamed, Restored)
	l.Record(Event{Workspace: 2, Action: Created, Path: "p"})
	// Closing and opening changes nothing, wherever the capture lies.
	for range 3 {
		must.OK(t, l.Close())
		l = mustOpen(t, fs, o)
		add(Created)
	}
	if s := l.RecordCapture(Event{Workspace: 1, From: "v2"}); s != (Span{5, 11, info.Counts{Created: 3, Modified: 1, Restored: 1}}) {
		t.Errorf("second: %+v", s)
	}
	if s := l.RecordCapture(Event{Workspace: 1, From: "v3"}); s != (Span{12, 12, info.Counts{}}) {
		t.Errorf("third: %+v", s)
	}
	es := all(t, l, 1)
	if e := es[3]; e.Action != Captured || e.From != "v1" || e.Path != "." {
		t.Errorf("the capture: %+v", e)
	}
}

// TestSpansAreWhatTheLogHas compares what each capture of a random history was given, which is
// counted as events come, with a count of the whole log.
func TestSpansAreWhatTheLogHas(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(1, seed))
		fs, o := vfstest.NewMem(), Options{SegmentSize: 500 + rnd.Int64N(5000)}
		l := mustOpen(t, fs, o)
		spans := map[uint32][]Span{}
		actions := []string{Created, Modified, Modified, Modified, Deleted, Renamed, Restored}
		for range 600 {
			view := 1 + rnd.Uint32N(3)
			switch n := rnd.IntN(40); {
			case n < 3:
				spans[view] = append(spans[view], l.RecordCapture(Event{Workspace: view, From: "v"}))
			case n == 3:
				l.Flush()
			case n == 4:
				must.OK(t, l.Close())
				l = mustOpen(t, fs, o)
			default:
				l.Record(Event{Workspace: view, Node: rnd.Uint64N(8), PID: rnd.Uint32N(2), Action: actions[rnd.IntN(len(actions))], Path: "p", From: "q"})
			}
		}
		for view, list := range spans {
			es := all(t, l, view)
			for i, e := range es {
				if e.Seq != uint64(i+1) {
					t.Fatalf("seed %d: event %d of view %d has the number %d", seed, i+1, view, e.Seq)
				}
			}
			next := uint64(1)
			for _, s := range list {
				full := Span{First: next, Last: s.Last}
				for _, e := range es[s.First-1 : s.Last] {
					addToCounts(&full.Counts, e.Action)
				}
				if s != full || es[s.Last-1].Action != Captured {
					t.Errorf("seed %d, view %d: a capture was given %+v, and the log has %+v", seed, view, s, full)
				}
				next = s.Last + 1
			}
		}
		must.OK(t, l.Close())
	}
}

func TestTornEnd(t *testing.T) {
	for name, rest := range map[string]string{
		"half a line": `{"seq":4,"time":"2026`, "zeros": "\x00\x00\x00\x00", "line of zeros": "\x00\x00\n",
		"line without end": `{"seq":4,"time":"","action":"created","pa` + "\n",
	} {
		fs := vfstest.NewMem()
		l := mustOpen(t, fs, Options{})
		for range 3 {
			l.Record(Event{Workspace: 1, Action: Created, Path: "p"})
		}
		must.OK(t, l.Close())
		f, err := fs.OpenFile("/events/1/"+segmentName(1), os.O_RDWR, 0)
		must.OK(t, err)
		size, _ := f.Size()
		_, err = f.WriteAt([]byte(rest), size)
		must.OK(t, err)
		l = mustOpen(t, fs, Options{})
		if n := l.LastSeq(1); n != 3 {
			t.Errorf("%s: last number %d", name, n)
		}
		l.Record(Event{Workspace: 1, Action: Deleted, Path: "p"})
		es := all(t, l, 1)
		if len(es) != 4 || es[3].Seq != 4 || es[3].Action != Deleted {
			t.Errorf("%s: %+v", name, es)
		}
	}
}

func TestLimit(t *testing.T) {
	fs := vfstest.NewMem()
	o := Options{LimitBytes: 4000, SegmentSize: 500, TenantOf: func(view uint32) uint32 { return min(view, 10) }}
	l := mustOpen(t, fs, o)
	r := l.Reader(1, 0)
	fill := func(view uint32, n int) {
		for range n {
			l.Record(Event{Workspace: view, Action: Created, Path: "some/path"})
			must.OK(t, l.Flush())
		}
	}
	size := func() (n int64) {
		for _, v := range l.mu.logs {
			n += v.size()
		}
		return n
	}
	fill(1, 200)
	if s := size(); s > 4000 || s < 3000 {
		t.Errorf("the log has %d bytes", s)
	}
	// A busy workspace takes from a quiet one what that has more than its half.
	fill(2, 400)
	if s := size(); s > 4000 {
		t.Errorf("the log has %d bytes", s)
	}
	kept, busy := len(all(t, l, 1)), len(all(t, l, 2))
	if kept < 10 || busy < 10 {
		t.Errorf("%d events of the quiet workspace are left, and %d of the busy one", kept, busy)
	}
	// Those who share a part have no more of it by being many.
	for view := range uint32(20) {
		fill(10+view, 20)
	}
	if n := len(all(t, l, 1)); n < kept/2 {
		t.Errorf("%d events of the quiet workspace are left of %d", n, kept)
	}
	if s := size(); s > 4000 {
		t.Errorf("the log has %d bytes", s)
	}
	must.OK(t, l.Close())
	if l = mustOpen(t, fs, o); l.LastSeq(1) != 200 || l.LastSeq(2) != 400 {
		t.Errorf("numbers after opening: %d, %d", l.LastSeq(1), l.LastSeq(2))
	}
	fill(1, 1)
	if es := all(t, l, 1); len(es) == 0 || es[len(es)-1].Seq != 201 {
		t.Errorf("events: %+v", es)
	}
	if r.RemovedBytes() == 0 {
		t.Error("the reader does not know that it is stale")
	}
	must.OK(t, l.Remove(2))
	if infos, _ := fs.ReadDir("/events"); len(infos) != 21 {
		t.Errorf("left in the directory: %+v", infos)
	}
}

// TestChainOfDirectories: an event costs no more for lying deep.
func TestChainOfDirectories(t *testing.T) {
	fs := vfstest.NewMem()
	l := mustOpen(t, fs, Options{})
	path := ""
	for range 4838 {
		path = strings.TrimPrefix(path+"/d", "/")
		l.Record(Event{Workspace: 1, Action: Created, Path: path})
	}
	must.OK(t, l.Flush())
	if n := l.totalSize(); n > 4838*1200 {
		t.Errorf("%d bytes", n)
	}
	es := all(t, l, 1)
	if got := es[len(es)-1].Path; !strings.HasPrefix(got, "…/d/d") || !strings.HasSuffix(got, "/d/d") || len(got) > MaxPathBytes+4 {
		t.Errorf("the last is of %q", got)
	}
	if got := es[300].Path; got != strings.Repeat("d/", 300)+"d" {
		t.Errorf("one that is not so deep is of %q", got)
	}
}

// What was read once at an offset stays there, apart from what was removed.
func TestReaderOffsetsAreStable(t *testing.T) {
	l := mustOpen(t, vfstest.NewMem(), Options{LimitBytes: 3000, SegmentSize: 400})
	r := l.Reader(1, 0)
	var seen []byte
	for i := range 150 {
		l.Record(Event{Workspace: 1, Action: Created, Path: fmt.Sprint("file", i)})
		must.OK(t, l.Flush())
		// As tail -f does: whatever is new.
		more := make([]byte, r.Size()-int64(len(seen)))
		if n, err := r.ReadAt(more, int64(len(seen))); err != nil || n != len(more) {
			t.Fatalf("%d of %d bytes: %v", n, len(more), err)
		}
		seen = append(seen, more...)
		whole := make([]byte, r.Size()+10)
		n, err := r.ReadAt(whole, 0)
		if err != io.EOF || int64(n) != r.Size() {
			t.Fatalf("%d of %d bytes: %v", n, r.Size(), err)
		}
		whole = whole[:n]
		for line := range bytes.Lines(whole) {
			if line[0] != '\n' && !json.Valid(line) {
				t.Fatalf("%q", line)
			}
		}
		kept := bytes.TrimLeft(whole, "\n")
		if !bytes.HasSuffix(seen, kept) {
			t.Fatalf("event %d: other bytes than before", i)
		}
	}
	if r.RemovedBytes() == 0 || l.Reader(1, 0).RemovedBytes() != 0 || l.Reader(1, 0).Size() >= r.Size() {
		t.Error("a new reader does not begin later")
	}
	if n := bytes.Count(seen, []byte("\n")); n != 150 {
		t.Errorf("whoever followed saw %d lines", n)
	}
}

func TestFollow(t *testing.T) {
	l := mustOpen(t, vfstest.NewMem(), Options{QuietTime: time.Millisecond})
	l.Record(Event{Workspace: 1, Action: Created, Path: "0"})
	got := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 2)
	go func() {
		done <- l.Follow(ctx, 1, 0, func(e Event) error { got <- e.Path; return nil }, nil)
	}()
	for i := range 3 {
		if p := <-got; p != fmt.Sprint(i) {
			t.Fatalf("event %d is %s", i, p)
		}
		l.Record(Event{Workspace: 1, Action: Created, Path: fmt.Sprint(i + 1)})
	}
	cancel()
	must.OK(t, <-done)
	go func() { done <- l.Follow(context.Background(), 1, 0, func(Event) error { return nil }, nil) }()
	must.OK(t, l.Close())
	must.OK(t, <-done)
}

// TestFollowElsewhere: whoever follows a workspace learns that something happened in another one.
func TestFollowElsewhere(t *testing.T) {
	l := mustOpen(t, vfstest.NewMem(), Options{QuietTime: time.Millisecond})
	l.Record(Event{Workspace: 1, Action: Created, Path: "0"})
	begun, woken, done := make(chan string, 1), make(chan bool), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		done <- l.Follow(ctx, 1, 0, func(e Event) error { begun <- e.Path; return nil }, func() error { woken <- true; return nil })
	}()
	<-begun
	for range 3 {
		l.Record(Event{Workspace: 2, Action: Created, Path: "x"})
		await.Receive(t, "an event elsewhere", woken)
	}
	cancel()
	must.OK(t, <-done)
}

func TestFullDisk(t *testing.T) {
	fs := vfstest.NewMem()
	l := mustOpen(t, fs, Options{})
	l.Record(Event{Workspace: 1, Action: Created, Path: "a"})
	must.OK(t, l.Flush())
	fs.SetCapacity(fs.Used())
	l.Record(Event{Workspace: 2, Action: Created, Path: strings.Repeat("x", 5000)})
	if err := l.Flush(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if n := len(all(t, l, 1)); n != 1 {
		t.Fatalf("%d events can be read", n)
	}
	fs.SetCapacity(1 << 30)
	l.Record(Event{Workspace: 2, Action: Created, Path: "b"})
	if es := all(t, l, 2); len(es) != 1 || es[0].Seq != 2 {
		t.Fatalf("after the disk had space again: %+v", es)
	}
}

func TestCommandOfAProcess(t *testing.T) {
	l := mustOpen(t, vfstest.NewMem(), Options{})
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	l.Record(Event{Workspace: 1, Action: Created, Path: "a", PID: uint32(cmd.Process.Pid)})
	must.OK(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	l.Record(Event{Workspace: 1, Action: Created, Path: "b", PID: uint32(syscall.Gettid())})
	es := all(t, l, 1)
	if es[0].Command != "sleep" {
		t.Errorf("command is %q", es[0].Command)
	}
	if es[1].PID != uint32(os.Getpid()) || es[1].Command == "" {
		t.Errorf("a thread's event has pid %d (of %d), command %q", es[1].PID, os.Getpid(), es[1].Command)
	}
}

func TestConcurrent(t *testing.T) {
	l := mustOpen(t, vfstest.NewMem(), Options{QuietTime: time.Millisecond, SegmentSize: 1000})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 300 {
				l.Record(Event{Workspace: uint32(w % 2), Node: uint64(w*1000 + i), Action: Created, Path: fmt.Sprint(i), PID: uint32(w)})
				if i%50 == 0 {
					l.RecordCapture(Event{Workspace: uint32(w % 2), From: "s"})
					if err := l.Read(uint32(w%2), 0, func(Event) error { return nil }); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for view := range uint32(2) {
		for i, e := range all(t, l, view) {
			if e.Seq != uint64(i+1) {
				t.Fatalf("event %d has number %d", i, e.Seq)
			}
		}
		if l.LastSeq(view) != 612 {
			t.Errorf("last number is %d", l.LastSeq(view))
		}
	}
	must.OK(t, l.Close())
}

func FuzzHead(f *testing.F) {
	f.Add([]byte(`{"seq":12,"time":"x","action":"renamed","path":""}`))
	f.Add([]byte(`{"seq":99999999999999999999,"action":"a"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		seq, action, ok := parseHead(b)
		if ok && (seq == 0 || !bytes.Contains(b, []byte(action))) {
			t.Fatalf("%q: %d %q", b, seq, action)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	l, err := Open(b.TempDir(), Options{FS: vfs.OS, Logger: slog.New(slog.DiscardHandler)})
	must.OK(b, err)
	defer l.Close()
	pid := uint32(os.Getpid())
	b.Run("same", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Record(Event{Workspace: 1, Node: 1, Action: Modified, Path: "a", PID: pid})
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for i := uint64(2); b.Loop(); i++ {
			l.Record(Event{Workspace: 1, Node: i, Action: Created, Path: "a", PID: pid})
		}
	})
}

// TestPanicOfTheWriter: it costs the events at hand, and no more.
func TestPanicOfTheWriter(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	panicked := make(chan struct{})
	l := mustOpen(t, vfstest.NewMem(), Options{QuietTime: time.Millisecond, Resolve: func(uint32, uint64) (string, int64, bool) {
		if broken.Load() {
			close(panicked)
			panic("a fault in the tree")
		}
		return "file", 0, true
	}})
	defer l.Close()
	l.Record(Event{Workspace: 1, Node: 10, Action: Modified})
	<-panicked
	broken.Store(false)
	l.Record(Event{Workspace: 1, Node: 10, Action: Modified})
	if n := len(all(t, l, 1)); n != 1 {
		t.Errorf("%d events, want the one after the panic", n)
	}
}
