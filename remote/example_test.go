package remote_test

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

// ExampleRemote_Push pushes a snapshot to a directory, from which other stores can read it.
func ExampleRemote_Push() {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer os.RemoveAll(dir)
	s, err := snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{})
	check(err)
	defer s.Close()
	_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	check(err)

	// A remote is a directory, a bucket or a registry. This one is a directory.
	place, ctx := filepath.Join(dir, "remote"), context.Background()
	check(os.Mkdir(place, 0o755))
	to, err := remote.Open("file://"+place, remote.Options{Cache: cache.New(filepath.Join(dir, "cache"), 1<<20)})
	check(err)
	defer to.Close()
	_, err = to.Init(ctx, nil, func(warning string) {})
	check(err)

	// The store keeps the snapshot until Release.
	out, err := s.Main().Remotes().PreparePush(ctx, "v1")
	check(err)
	defer out.Release()
	push := remote.PushOptions{
		ReadStored: func(_ context.Context, h cas.Hash) (cas.StoredObject, error) { return s.CAS().GetStored(h) },
		Mark: func(ctx context.Context, keep func(cas.Hash) bool) error {
			return out.State.Mark(ctx, s.Source(), nil, false, keep)
		},
	}
	push.Ref.Name, push.Ref.ID = out.Info.Name, out.Info.ID
	_, err = to.Push(ctx, push)
	check(err)

	found, err := to.Find(ctx, "v1")
	check(err)
	fmt.Println(found.Name, found.ID == out.Info.ID)
	// Output: v1 true
}
