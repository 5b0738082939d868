package known

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/tests/must"
)

func open(t *testing.T, dir string) *Registry {
	t.Helper()
	if os.Getenv("XDG_STATE_HOME") == "" {
		t.Setenv("XDG_STATE_HOME", t.TempDir())
	}
	k, err := Open(dir, Options{FS: vfs.OS, Logger: slog.New(slog.DiscardHandler)})
	must.OK(t, err)
	t.Cleanup(func() { k.Close() })
	return k
}

func TestRemotesAreKept(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, url := t.TempDir(), "file://"+t.TempDir()
	k := open(t, dir)
	must.OK(t, k.Add("origin", url))
	if err := k.Add("origin", "s3://another"); !errors.Is(err, errs.Exist) {
		t.Errorf("one name for two places: %v", err)
	}
	for _, bad := range []string{"", "-x", "a/b", "a b", strings.Repeat("a", 65)} {
		if err := k.Add(bad, url); !errors.Is(err, errs.Invalid) {
			t.Errorf("the name %q: %v", bad, err)
		}
	}
	r, err := k.Remote("origin")
	must.OK(t, err)
	must.OK(t, k.SetPushBase(r, "v1"))
	k = open(t, dir)
	if r, err = k.Remote("origin"); err != nil || r.URL() != url || k.PushBase(r) != "v1" {
		t.Fatalf("after opening again: %v, %v", r, err)
	}
	must.OK(t, k.Remove("origin"))
	if _, err := k.Remote("origin"); !errors.Is(err, errs.NotExist) || len(open(t, dir).List()) != 0 {
		t.Errorf("a removed remote: %v", err)
	}
}

// TestMalformedFile: Open returns an error for a remotes.json that this package cannot have written. It does not
// panic or ignore the file.
func TestMalformedFile(t *testing.T) {
	for _, text := range []string{"", "x", "[]", `{"version":2}`, `{"version":1,"from":[{"url":"file:///x"}]}`, `{"version":1,"from":[{"ref":{"id":"x"}}]}`} {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, "remotes.json"), []byte(text), 0o600))
		if k, err := Open(dir, Options{FS: vfs.OS}); err == nil {
			t.Errorf("%q is taken: %+v", text, k.file)
		}
	}
}

func TestSplitFrom(t *testing.T) {
	for from, want := range map[string][3]string{
		"s3://b/p@v1":                     {"s3://b/p", "v1", "true"},
		"s3://b/p?endpoint=http://h:1@v1": {"s3://b/p?endpoint=http://h:1", "v1", "true"},
		"file:///a@b/c@v2":                {"file:///a@b/c", "v2", "true"},
		"oci://h/r":                       {"oci://h/r", "", "true"},
		"/a/directory@v1":                 {"", "", "false"},
		"./gs://b@v1":                     {"", "", "false"},
		"gs://b/p@v1":                     {"gs://b/p", "v1", "true"},
	} {
		url, name, ok := SplitSnapshotURL(from)
		if got := [3]string{url, name, map[bool]string{true: "true", false: "false"}[ok]}; got != want {
			t.Errorf("%s: %q", from, got)
		}
	}
}

// TestTrust: amberfs contacts a remote that a store names only after the user has agreed to it. The agreement is
// valid for all processes of this user, and for no other user.
func TestTrust(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	theirs, dir := t.TempDir(), t.TempDir()
	url := "file://" + dir
	text := `{"version":1,"remotes":{"origin":"` + url + `"}}`
	must.OK(t, os.WriteFile(filepath.Join(theirs, "remotes.json"), []byte(text), 0o600))
	k := open(t, theirs)
	r, err := k.Remote("origin")
	must.OK(t, err)
	init := func() error {
		_, err := r.Init(t.Context(), nil, func(string) {})
		return err
	}
	if err := init(); !errors.Is(err, backend.ErrUntrusted) || k.Untrusted()["origin"] != url {
		t.Errorf("before: %v, untrusted %v", err, k.Untrusted())
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it was written to: %v", left)
	}
	if _, err := k.Trust("s3://other/place"); !errors.Is(err, errs.NotExist) {
		t.Errorf("another place: %v", err)
	}
	if at, err := k.Trust("origin"); err != nil || at != url {
		t.Fatal(at, err)
	}
	if err := init(); err != nil || len(k.Untrusted()) > 0 {
		t.Errorf("afterwards: %v, untrusted %v", err, k.Untrusted())
	}
	if k := open(t, theirs); len(k.Untrusted()) > 0 {
		t.Error("the next mount asks again")
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if k := open(t, theirs); len(k.Untrusted()) != 1 {
		t.Error("another user is not asked")
	}
}
