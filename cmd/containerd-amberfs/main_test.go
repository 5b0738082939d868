package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/proxy"
	"github.com/containerd/containerd/v2/core/snapshots/testsuite"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) {
	if os.Getenv(asSnapshotter) != "" {
		main()
		return
	}
	os.Exit(harness.Run(m))
}

// TestSuite runs containerd's own tests for snapshotters.
func TestSuite(t *testing.T) {
	testsuite.SnapshotterSuite(t, "amberfs", func(ctx context.Context, root string) (snapshots.Snapshotter, func() error, error) {
		s, m, err := opened(ctx, t, root)
		if err != nil {
			return nil, nil, err
		}
		return s, func() error { err := s.Close(); m.Stop(); return err }, nil
	})
}

// TestProxy runs containerd's own tests over a socket, by which containerd calls a proxy plugin.
func TestProxy(t *testing.T) {
	testsuite.SnapshotterSuite(t, "amberfs-proxy", func(ctx context.Context, root string) (snapshots.Snapshotter, func() error, error) {
		s, m, err := opened(ctx, t, root)
		if err != nil {
			return nil, nil, err
		}
		socket := filepath.Join(root, "socket")
		l, err := net.Listen("unix", socket)
		if err != nil {
			return nil, nil, err
		}
		server := newServer(s)
		go func() { _ = server.Serve(l) }()
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, nil, err
		}
		end := func() error {
			err := conn.Close()
			server.Stop()
			err = errors.Join(err, s.Close())
			m.Stop()
			return err
		}
		return proxy.NewSnapshotter(snapshotsapi.NewSnapshotsClient(conn), "amberfs"), end, nil
	})
}

func opened(ctx context.Context, t *testing.T, root string) (*snapshotter, *harness.Mount, error) {
	m := harness.New(t, "-o", "allow_other,dev,suid")
	s, err := newSnapshotter(ctx, m.Store, root)
	return s, m, err
}

// TestLeftovers: forks of interrupted requests are deleted, and other forks are kept. A snapshot that a program in the
// container took under the name of the layer does not become the layer.
func TestLeftovers(t *testing.T) {
	s, m, err := opened(t.Context(), t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"sn-1", "sn-999", "other"} {
		m.Amberfs("-C", m.Dir, "fork", name)
	}
	if _, err := s.Prepare(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	at := m.Path(".forks", "sn-1")
	m.Amberfs("-C", at, "snapshot", "--pin", layerSnapshot)
	if err := os.WriteFile(filepath.Join(at, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), "b", "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prepare(t.Context(), "c", "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.Path(".forks", "sn-2", "f")); err != nil {
		t.Error(err)
	}
	if err := s.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	forks, err := s.forkNames(t.Context())
	if want := []string{"other", "sn-1", "sn-2"}; err != nil || !slices.Equal(forks, want) {
		t.Errorf("the forks are %q, %v; want %q", forks, err, want)
	}
}
