package gitbridge

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// Of a file with holes only the data is read and sent, as much as it is, and where it is.
func TestReadDirPassesOverHoles(t *testing.T) {
	dir := t.TempDir()
	const size = 1 << 40
	f, err := os.Create(filepath.Join(dir, "f"))
	must.OK(t, err)
	_, err = f.WriteAt([]byte("data"), size/2)
	must.OK(t, err)
	must.OK(t, f.Truncate(size-1))
	must.OK(t, f.Close())
	must.OK(t, os.WriteFile(filepath.Join(dir, "none"), nil, 0o600))
	must.OK(t, os.Truncate(filepath.Join(dir, "none"), size-1))
	var sent bytes.Buffer
	out := NewStreamSink(&sent)
	limits := ImportOptions{Limits: Limits{Bytes: 2 * size}}
	must.OK(t, ReadDir(context.Background(), dir, out.Add, DirOptions{ImportOptions: limits}))
	must.OK(t, out.Close())
	if sent.Len() > 1<<20 {
		t.Errorf("%d bytes were sent", sent.Len())
	}
	got := map[string]string{}
	must.OK(t, ReadStream(context.Background(), &sent, func(e Entry) error {
		if e.Data == nil {
			return nil
		}
		b, err := io.ReadAll(e.Data)
		got[e.Path] = string(bytes.TrimRight(b, "\x00"))
		if !e.Sparse || e.Size != size-1 || e.Path == "f" && (len(e.Parts) != 1 || e.Parts[0].Off != size/2) {
			t.Errorf("%s has %d bytes in %v", e.Path, e.Size, e.Parts)
		}
		return err
	}, limits))
	if got["f"] != "data" || got["none"] != "" || len(got) != 2 {
		t.Errorf("got %q", got)
	}
}
