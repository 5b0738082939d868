package hostdir

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
)

// TestReadDirPassesOverHoles: of a file with holes, only the data is read and sent, with its offset.
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
	out := stream.NewWriter(&sent)
	limits := stream.Options{Limits: stream.Limits{Bytes: 2 * size}}
	must.OK(t, Read(context.Background(), dir, out.Add, ReadOptions{Options: limits}))
	must.OK(t, out.Close())
	if sent.Len() > 1<<20 {
		t.Errorf("%d bytes were sent", sent.Len())
	}
	got := map[string]string{}
	must.OK(t, stream.Read(context.Background(), &sent, func(e stream.Entry) error {
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
