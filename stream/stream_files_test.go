package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
)

// TestSentFiles: Read returns the data of a file that a Writer sent as an open file, also of a file with holes. It
// refuses such an entry if Options.ReceiveFile is nil.
func TestSentFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	must.OK(t, os.WriteFile(name, []byte("0123456789"), 0o600))
	f, err := os.Open(name)
	must.OK(t, err)
	defer f.Close()
	var sent bytes.Buffer
	w := stream.NewWriter(&sent)
	w.SendFile = func(fd int) bool { return fd == int(f.Fd()) }
	e := stream.Entry{Path: "f", Size: 10, Data: bytes.NewReader(nil), File: f}
	e.Mode = unix.S_IFREG | 0o640
	must.OK(t, w.Add(e))
	e.Path, e.Sparse, e.Parts = "sparse", true, []content.DataRange{{Off: 2, N: 3}, {Off: 8, N: 1}}
	must.OK(t, w.Add(e))
	e.Path, e.Sparse, e.Parts, e.File, e.Data = "bytes", false, nil, nil, bytes.NewReader([]byte("abcdefghij"))
	must.OK(t, w.Add(e))
	must.OK(t, w.Close())

	got := map[string]string{}
	sink := func(e stream.Entry) error {
		b, err := io.ReadAll(e.Data)
		if got[e.Path] = string(b); e.Mode != unix.S_IFREG|0o640 {
			t.Errorf("%s has the mode %o", e.Path, e.Mode)
		}
		return err
	}
	again := sent.Bytes()
	open := func() (*os.File, error) { return os.Open(name) }
	must.OK(t, stream.Read(context.Background(), bytes.NewReader(again), sink, stream.Options{ReceiveFile: open}))
	if len(got) != 3 || got["f"] != "0123456789" || got["sparse"] != "2348" || got["bytes"] != "abcdefghij" {
		t.Errorf("got %q", got)
	}
	if err := stream.Read(context.Background(), bytes.NewReader(again), sink, stream.Options{}); !errors.Is(err, stream.ErrHostile) {
		t.Errorf("without files: %v", err)
	}
}
