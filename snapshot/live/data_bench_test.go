package live

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
)

// BenchmarkRequests makes the requests of which the kernel sends most.
func BenchmarkRequests(b *testing.B) {
	f := testForestIn(b, vfs.OS, b.TempDir())
	root := Node(MainView, RootIno)
	var last Attr
	for i := range 1000 {
		a, err := f.Create(root, fmt.Sprint(i), NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(b, err)
		last = a
	}
	p := make([]byte, 4096)
	_, err := f.Write(last.ID, p, 0, true)
	must.OK(b, err)

	for name, do := range map[string]func() error{
		"getattr": func() error { _, err := f.GetAttr(last.ID); return err },
		"lookup":  func() error { _, err := f.Lookup(root, "777"); return err },
		"read":    func() error { _, err := f.ReadAt(last.ID, p, 0); return err },
		"write":   func() error { _, err := f.WithActor("someone").Write(last.ID, p, 0, true); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.OK(b, do())
			}
		})
	}
}
