// Package main is the command amberfs-csi, a driver of the Container Storage Interface for one node. A volume and
// a snapshot are forks of a store that the node's daemon has mounted. The driver requests the forks from the
// daemon, and has no state of its own. It is a separate Go module, so that gRPC is not a dependency of amberfs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

const usage = `usage: amberfs-csi -store DIR -node NAME [-endpoint unix:///csi/csi.sock] [-register DIR]

Serves the Container Storage Interface on a socket, with volumes in the store DIR, which
"amberfs mount -o allow_other DIR MOUNTPOINT" has mounted on this node. With -register it is found
by the node's kubelet, which watches /var/lib/kubelet/plugins_registry. Then the endpoint must be
the path of the socket as the kubelet sees it.

`

func main() {
	d := &driver{log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	endpoint := flag.String("endpoint", "unix:///csi/csi.sock", "the socket to listen on")
	flag.StringVar(&d.store, "store", "", "the directory of the store")
	flag.StringVar(&d.node, "node", "", "the name of this node in the cluster")
	registry := flag.String("register", "", "the directory that the kubelet watches for drivers")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()

	if d.store == "" || d.node == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}

	d.locks = locks{path: filepath.Clean(d.store) + "-locks"}
	d.credentials = credentialFiles{dir: filepath.Clean(d.store) + "-credentials", locks: d.locks}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if err := d.serve(ctx, *endpoint, *registry); err != nil {
		fmt.Fprintf(os.Stderr, "amberfs-csi: %v\n", err)
		os.Exit(1)
	}
}

// serve answers requests until ctx ends.
func (d *driver) serve(ctx context.Context, endpoint, registry string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "unix" || u.Path == "" {
		return fmt.Errorf("the endpoint %q is not unix:///PATH", endpoint)
	}

	l, err := listen(u.Path)
	if err != nil {
		return err
	}

	s := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csi.RegisterIdentityServer(s, identity{d: d})
	csi.RegisterControllerServer(s, controller{d: d})
	csi.RegisterNodeServer(s, node{d: d})
	defer context.AfterFunc(ctx, s.GracefulStop)()

	if registry != "" {
		r, err := d.register(registry, u.Path)
		if err != nil {
			return err
		}
		defer r.Stop()
	}

	return s.Serve(l)
}

// listen creates a socket that only root may use. It replaces the socket of a driver that was killed.
func listen(path string) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}

	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}

	return l, os.Chmod(path, 0o600)
}
