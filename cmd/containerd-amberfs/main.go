// Package main is the command containerd-amberfs, a snapshotter of containerd, as a proxy plugin for one node.
// Layers of images and the root directories of containers are forks of a store that the node's daemon has
// mounted. The command is a separate Go module, so that containerd's modules are not dependencies of amberfs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/containerd/v2/core/snapshots"
	"google.golang.org/grpc"
)

const usage = `usage: containerd-amberfs -store DIR [-root DIR] [-socket FILE]

Serves snapshots for containerd on a socket. They are forks in the store DIR, which has no other
use, and which "amberfs mount -o allow_other,dev,suid DIR MOUNTPOINT" has mounted. In containerd's
configuration:

  [proxy_plugins.amberfs]
    type = "snapshot"
    address = "/run/containerd-amberfs.sock"

  # containerd 2, to unpack what it pulls into it
  [[plugins."io.containerd.transfer.v1.local".unpack_config]]
    platform = "linux/amd64"
    snapshotter = "amberfs"

`

func main() {
	store := flag.String("store", "", "the directory of the store")
	root := flag.String("root", "/var/lib/containerd-amberfs", "the directory of the names and parents of snapshots")
	socket := flag.String("socket", "/run/containerd-amberfs.sock", "the socket to listen on")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()

	if *store == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if err := run(ctx, *store, *root, *socket); err != nil {
		fmt.Fprintf(os.Stderr, "containerd-amberfs: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, store, root, socket string) error {
	s, err := newSnapshotter(ctx, store, root)
	if err != nil {
		return err
	}
	defer s.Close()

	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return err
	}

	// Replace the socket of a process that was killed.
	if st, err := os.Lstat(socket); err == nil && st.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return err
	}

	server := newServer(s)
	defer context.AfterFunc(ctx, server.GracefulStop)()

	return server.Serve(l)
}

func newServer(s snapshots.Snapshotter) *grpc.Server {
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(s))
	return server
}
