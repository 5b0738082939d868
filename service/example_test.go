package service_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/snapshot"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A snapshot is sent to a directory that other stores can read, too.
func ExamplePushed() {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	s, err := snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{})
	check(err)
	defer s.Close()

	ctx, w := context.Background(), s.Main()
	_, err = w.Capture(snapshot.CaptureOptions{Name: "v1"})
	check(err)

	place := filepath.Join(dir, "remote")
	check(os.Mkdir(place, 0o755))
	to, err := remote.Open("file://"+place, remote.Options{Cache: cache.New(filepath.Join(dir, "cache"), 1<<20)})
	check(err)
	defer to.Close()
	_, err = to.Init(ctx, nil, func(string) {})
	check(err)

	out, err := w.Remotes().Push(ctx, "v1")
	check(err)
	defer out.Release()
	push := remote.Push{
		Stored: func(_ context.Context, h cas.Hash) (cas.Stored, error) { return s.CAS().Stored(h) },
		Mark: func(ctx context.Context, keep func(cas.Hash) bool) error {
			return out.State.Mark(ctx, s.Source(), nil, false, keep)
		},
	}
	push.Ref.Name, push.Ref.ID = out.Info.Name, out.Info.ID
	done, err := to.Push(ctx, push)
	check(err)
	fmt.Println(done.Ref.Name, done.Unchanged)
	// Output: v1 false
}
