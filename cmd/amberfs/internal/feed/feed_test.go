package feed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot/tree"
	"golang.org/x/sys/unix"
)

// recorder writes down what it is given, a line a call.
type recorder struct{ bytes.Buffer }

func (r *recorder) Dir(p string, m gitbridge.Meta) error {
	_, err := fmt.Fprintf(r, "dir %q %+v\n", p, m)
	return err
}

func (r *recorder) File(p string, m gitbridge.Meta, size int64, in io.Reader) error {
	fmt.Fprintf(r, "file %q %+v %d", p, m, size)
	sparse, ok := in.(gitbridge.SparseReader)
	if !ok {
		data, err := io.ReadAll(in)
		fmt.Fprintf(r, " %q\n", data)
		return err
	}
	for {
		off, err := sparse.Next()
		if err == io.EOF {
			fmt.Fprintf(r, " end %d\n", off)
			return nil
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(sparse)
		fmt.Fprintf(r, " %d:%q", off, data)
		if err != nil {
			return err
		}
	}
}

func (r *recorder) Symlink(p, target string, m gitbridge.Meta) error {
	_, err := fmt.Fprintf(r, "link %q %q %+v\n", p, target, m)
	return err
}

func (r *recorder) Hardlink(p, old string) error {
	_, err := fmt.Fprintf(r, "hard %q %q\n", p, old)
	return err
}

func (r *recorder) Special(p string, m gitbridge.Meta, rdev uint32) error {
	_, err := fmt.Fprintf(r, "special %q %+v %d\n", p, m, rdev)
	return err
}

// parts is a sparse file.
type parts struct {
	size  int64
	at    []int64
	text  []string
	now   io.Reader
	fault error
}

func (p *parts) Next() (int64, error) {
	if len(p.at) == 0 {
		if p.fault != nil {
			return 0, p.fault
		}
		return p.size, io.EOF
	}
	at := p.at[0]
	p.now = strings.NewReader(p.text[0])
	p.at, p.text = p.at[1:], p.text[1:]
	return at, nil
}

func (p *parts) Read(b []byte) (int, error) { return p.now.Read(b) }

// send calls a sink in every way.
func send(t testing.TB, s gitbridge.Sink) {
	t.Helper()
	m := gitbridge.Meta{Mode: unix.S_IFDIR | 0o755, UID: 1<<32 - 2, GID: 5, Atime: -1, Mtime: 1_700_000_000_123_456_789,
		Xattrs: []tree.Xattr{{Name: "user.k", Value: []byte("a\x00b")}, {Name: "user.none"}}}
	for _, err := range []error{
		s.Dir(".", m), s.Dir("d", m),
		s.File("d/empty", m, 0, strings.NewReader("")),
		s.File("d/-odd \"name\"\n\xff", m, 3, strings.NewReader("abc")),
		s.File("big", m, 300_000, strings.NewReader(strings.Repeat("x", 300_000))),
		s.File("sparse", m, 1<<40, &parts{size: 1 << 40, at: []int64{0, 1 << 30}, text: []string{"abc", strings.Repeat("y", 100_000)}}),
		s.File("hole", m, 1<<50, &parts{size: 1 << 50}),
		s.Symlink("l", "../../etc", m), s.Hardlink("d/h", "big"), s.Special("fifo", m, 259),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func stream(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	send(t, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatGoesInComesOut(t *testing.T) {
	var want, got recorder
	send(t, &want)
	if err := Read(bytes.NewReader(stream(t)), &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want.String())
	}
}

func TestTornStreams(t *testing.T) {
	data := stream(t)
	for n := 0; n < len(data); n += 1 + n/20 {
		if err := Read(bytes.NewReader(data[:n]), &recorder{}); err == nil {
			t.Errorf("%d of %d bytes are taken for all", n, len(data))
		}
	}
}

func TestSourcesThatFail(t *testing.T) {
	fault := errors.New("fault")
	w := NewWriter(io.Discard)
	if err := w.File("f", gitbridge.Meta{}, 5, strings.NewReader("abc")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that became shorter: %v", err)
	}
	if err := w.File("f", gitbridge.Meta{}, 5, &parts{fault: fault}); !errors.Is(err, fault) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

func TestPathsThatLeadElsewhere(t *testing.T) {
	for _, p := range []string{"", "/etc", "..", "../x", "a/../../x", "a//b", "a/", "./a", "a\x00b"} {
		for _, hard := range []bool{false, true} {
			var b bytes.Buffer
			w := NewWriter(&b)
			if hard {
				_ = w.Hardlink("ok", p)
			} else {
				_ = w.Dir(p, gitbridge.Meta{})
			}
			_ = w.Close()
			if err := Read(&b, &recorder{}); !errors.Is(err, errBroken) {
				t.Errorf("%q: %v", p, err)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{kindEnd})
	f.Add(stream(f)[:2000])
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = Read(bytes.NewReader(data), &recorder{})
	})
}
