package backend_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

func open(t *testing.T, url string) backend.Backend {
	t.Helper()
	_, err := backend.Open(url)
	must.OK(t, err)
	b := backend.OpenLazily(url, nil)
	t.Cleanup(func() { b.CloseIdleConnections() })
	return b
}

// perTest returns a function that opens a backend for a test. All backends of one test have the same URL, which no
// other test has.
func perTest(url func(name string) string) func(*testing.T) backend.Backend {
	return func(t *testing.T) backend.Backend {
		return open(t, url(strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:])))
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	remotetest.Suite(t, perTest(func(name string) string {
		url := "file://" + dir + "/" + name
		must.OK(t, backend.MakeDir(url))
		must.OK(t, os.WriteFile(filepath.Join(dir, name, "format"), nil, 0o600))
		return url
	}))
	missing := filepath.Join(dir, "missing")
	if _, err := backend.Get(t.Context(), open(t, "file://"+missing), "format"); !errors.Is(err, backend.ErrAway) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("opening a remote has made a directory")
	}
}

// TestDirectoryAway: if the disk of a directory is not mounted, the remote is away. Its objects do not count as
// missing.
func TestDirectoryAway(t *testing.T) {
	dir, ctx := filepath.Join(t.TempDir(), "stick", "remote"), t.Context()
	url := "file://" + dir
	must.OK(t, backend.MakeDir(url))
	b, data := open(t, url), []byte("data")
	key := backend.ObjectOf(data).Key()
	for _, k := range []string{key, "format"} {
		must.OK(t, b.Put(ctx, k, data, backend.PutOptions{}))
	}
	for what, away := range map[string]string{"the directory": dir, "the disk": filepath.Dir(dir)} {
		must.OK(t, os.Rename(away, away+".away"))
		if _, err := b.GetRange(ctx, key, 0, 4); !errors.Is(err, backend.ErrAway) {
			t.Errorf("%s is away: %v", what, err)
		}
		// If the disk is not mounted, its mount point is an empty directory.
		must.OK(t, os.MkdirAll(dir, 0o700))
		for _, k := range []string{key, "format"} {
			if _, err := b.Stat(ctx, k); !errors.Is(err, backend.ErrAway) {
				t.Errorf("%s is away, its mount point there: %v", what, err)
			}
		}
		must.OK(t, errors.Join(os.RemoveAll(away), os.Rename(away+".away", away)))
		if got, err := b.GetRange(ctx, key, 0, 4); err != nil || string(got) != "data" {
			t.Errorf("%s is back: %q, %v", what, got, err)
		}
	}
}

// TestDirectoryOfOthers: other users may put any files into the directory. No call blocks on such a file, or reads
// or writes a file outside of the directory.
func TestDirectoryOfOthers(t *testing.T) {
	ctx, data := t.Context(), []byte("ours")
	key := backend.ObjectOf(data).Key()
	outside := filepath.Join(t.TempDir(), "theirs")
	makers := map[string]func(name string) error{
		"a FIFO":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a link":      func(name string) error { return os.Symlink(outside, name) },
		"a hard link": func(name string) error { return os.Link(outside, name) },
		"a directory": func(name string) error { return os.Mkdir(name, 0o700) },
	}
	for what, place := range makers {
		for _, bad := range []string{"format", "ref/v1", key} {
			t.Run(what+" as "+bad[:min(len(bad), 6)], func(t *testing.T) {
				dir := t.TempDir()
				must.OK(t, os.WriteFile(outside, []byte("theirs"), 0o600))
				must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, bad)), 0o700), place(filepath.Join(dir, bad))))
				b, done := open(t, "file://"+dir), make(chan struct{})
				go func() {
					defer close(done)
					for _, k := range []string{"format", "ref/v1", key} {
						_, _ = b.Stat(ctx, k)
						if got, err := backend.Get(ctx, b, k); err == nil && string(got) == "theirs" && what == "a link" {
							t.Errorf("%s is read from outside", k)
						}
						_, _ = b.GetRange(ctx, k, 0, 4)
						_ = b.Put(ctx, k, data, backend.PutOptions{IfAbsent: true})
						_ = b.Put(ctx, k, data, backend.PutOptions{})
						_ = b.Delete(ctx, k)
					}
					for _, prefix := range []string{"ref/", "obj/", "hold/", "gc/"} {
						_ = b.List(ctx, prefix, func(backend.Info) error { return nil })
					}
				}()
				await.Receive(t, "all calls", done)
				if got, err := os.ReadFile(outside); err != nil || string(got) != "theirs" {
					t.Errorf("the file outside has %q, %v", got, err)
				}
			})
		}
	}
}

func TestS3(t *testing.T) {
	endpoint := remotetest.S3(t)
	remotetest.Suite(t, perTest(func(name string) string { return remotetest.S3Prefix(endpoint, "suite/"+name) }))
}

func TestRegistry(t *testing.T) {
	addr := remotetest.Registry(t)
	remotetest.Suite(t, perTest(func(name string) string { return "oci://" + addr + "/suite/" + name }))
}

func TestURLs(t *testing.T) {
	good := []string{"s3://b", "s3://bucket/a/b?region=x", "s3://bucket?endpoint=http://127.0.0.1:9", "oci://ghcr.io/me/ws", "oci://localhost:5000/x"}
	for _, u := range good {
		if b, err := backend.Open(u); err != nil || b.URL() != u {
			t.Errorf("%s: %v", u, err)
		}
	}
	const secret = "hunter2"
	bad := []string{
		"", "x", "/dir", "http://host/x", "s3://", "s3://key:" + secret + "@bucket/x", "s3://bucket?secret=" + secret,
		"s3://bucket?endpoint=http://u:" + secret + "@host", "s3://bucket?endpoint=nonsense", "s3://bucket#" + "x",
		"oci://host", "oci://u:" + secret + "@host/repo", "oci://host/repo:tag", "oci://host/repo?x=" + secret,
		"file://host/dir", "file:dir", "file:///tmp?x=1", "s3://u:" + secret + "%zz@host",
	}
	for _, u := range bad {
		if b, err := backend.Open(u); err == nil {
			t.Errorf("%s is taken: %v", u, b)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells the secret: %v", u, err)
		}
	}
}

// disturbed runs fn with a backend behind a proxy, for each kind of backend that uses HTTP.
func disturbed(t *testing.T, fn func(t *testing.T, p *remotetest.Proxy, b backend.Backend)) {
	t.Run("s3", func(t *testing.T) {
		p := remotetest.NewProxy(t, remotetest.S3(t))
		fn(t, p, open(t, remotetest.S3Prefix(p.URL, "disturbed")))
	})
	t.Run("registry", func(t *testing.T) {
		p := remotetest.NewProxy(t, "http://"+remotetest.Registry(t))
		fn(t, p, open(t, "oci://"+strings.TrimPrefix(p.URL, "http://")+"/disturbed"))
	})
}

func TestDisturbed(t *testing.T) {
	disturbed(t, func(t *testing.T, p *remotetest.Proxy, b backend.Backend) {
		data := remotetest.Bytes(7, 100_000)
		key := backend.ObjectOf(data).Key()
		p.Disturb(remotetest.Busy)
		if err := b.Put(t.Context(), key, data, backend.PutOptions{}); err != nil {
			t.Fatalf("put of a store that is busy once: %v", err)
		}
		p.Disturb(remotetest.Busy)
		if got, err := b.GetRange(t.Context(), key, 10, 1000); err != nil || string(got) != string(data[10:1010]) {
			t.Fatalf("read from a store that is busy once: %v", err)
		}
		p.Disturb(remotetest.Cut)
		if got, err := b.GetRange(t.Context(), key, 0, 100_000); err == nil && string(got) != string(data) {
			t.Fatalf("half of an answer is taken for all: %d bytes", len(got))
		} else if err != nil && !errors.Is(err, backend.ErrAway) {
			t.Errorf("half of an answer: %v", err)
		}
	})
}

func TestAway(t *testing.T) {
	disturbed(t, func(t *testing.T, p *remotetest.Proxy, b backend.Backend) {
		p.SetAway(true)
		if _, err := backend.Get(t.Context(), b, "ref/v1"); !errors.Is(err, backend.ErrAway) {
			t.Errorf("read: %v", err)
		}
		p.SetAway(false)
		if _, err := backend.Get(t.Context(), b, "ref/v1"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("read when it is back: %v", err)
		}
	})
}

// TestLostAnswer: a Put was carried out although its answer was lost. The client library then repeats the request,
// and finds the key of the first one.
func TestLostAnswer(t *testing.T) {
	p := remotetest.NewProxy(t, remotetest.S3(t))
	b := open(t, remotetest.S3Prefix(p.URL, "lost"))
	p.Disturb(remotetest.Lost)
	err := b.Put(t.Context(), "ref/v1", []byte("mine"), backend.PutOptions{IfAbsent: true})
	if err != nil && !errors.Is(err, backend.ErrChanged) && !errors.Is(err, backend.ErrAway) {
		t.Errorf("put: %v", err)
	}
	if data, err := backend.Get(t.Context(), b, "ref/v1"); err != nil || string(data) != "mine" {
		t.Errorf("it holds %q, %v", data, err)
	}
}

func TestDenied(t *testing.T) {
	endpoint := remotetest.S3(t)
	const secret = "not-the-right-one"
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	b := open(t, remotetest.S3Prefix(endpoint, "denied"))
	err := b.Put(t.Context(), "ref/v1", nil, backend.PutOptions{})
	if !errors.Is(err, backend.ErrDenied) || strings.Contains(fmt.Sprint(err), secret) {
		t.Errorf("put with a wrong secret: %v", err)
	}
	if _, err := backend.Get(t.Context(), b, "ref/v1"); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("get with a wrong secret: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testsecret")
	b = open(t, "s3://nobodys/x?endpoint="+endpoint)
	err = b.List(t.Context(), "ref/", func(backend.Info) error { return nil })
	if !errors.Is(err, backend.ErrNoBucket) || !strings.Contains(err.Error(), "nobodys") {
		t.Errorf("list of a bucket that is not there: %v", err)
	}
}
