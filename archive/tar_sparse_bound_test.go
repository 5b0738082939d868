package archive

import (
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
)

// TestHolesHaveABound: maxHoleBytes limits the holes of all files of an archive together. A file that would exceed
// the limit is left out and reported.
func TestHolesHaveABound(t *testing.T) {
	sink := NewTarSink(io.Discard)
	sink.holeBytes = maxHoleBytes - 10
	for _, e := range []struct {
		path  string
		holes int64
	}{{"fits", 6}, {"large", 6}, {"small", 4}, {"none", 0}, {"more", 1}} {
		must.OK(t, sink.Add(stream.Entry{Path: e.path, Meta: stream.Meta{Mode: unix.S_IFREG | 0o644}, Size: 0, Holes: e.holes, Data: emptyFile{}}))
	}
	var skipped []string
	for _, o := range sink.Skipped {
		skipped = append(skipped, o.Path)
	}
	if len(skipped) != 2 || skipped[0] != "large" || skipped[1] != "more" || sink.Files != 3 {
		t.Errorf("%d files, and %v are skipped", sink.Files, skipped)
	}
}

type emptyFile struct{}

func (emptyFile) Read([]byte) (int, error) { return 0, io.EOF }
