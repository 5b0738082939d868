package known

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

func open(t *testing.T, dir string) *Known {
	t.Helper()
	k, err := Open(dir, Options{FS: vfs.OS})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func TestRemotesAreKept(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, url := t.TempDir(), "file://"+t.TempDir()
	k := open(t, dir)
	if err := k.Add("origin", url); err != nil {
		t.Fatal(err)
	}
	if err := k.Add("origin", "s3://another"); !errors.Is(err, errs.Exist) {
		t.Errorf("one name for two places: %v", err)
	}
	for _, bad := range []string{"", "-x", "a/b", "a b", strings.Repeat("a", 65)} {
		if err := k.Add(bad, url); !errors.Is(err, errs.Invalid) {
			t.Errorf("the name %q: %v", bad, err)
		}
	}
	r, err := k.Remote("origin")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.SetBase(r, 0, "v1"); err != nil {
		t.Fatal(err)
	}
	k = open(t, dir)
	if r, err = k.Remote("origin"); err != nil || r.URL() != url || k.Base(r, 0) != "v1" {
		t.Fatalf("after opening again: %v, %v", r, err)
	}
	if err := k.Remove("origin"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Remote("origin"); !errors.Is(err, errs.NotExist) || len(open(t, dir).List()) != 0 {
		t.Errorf("a removed remote: %v", err)
	}
}

// A file that somebody else wrote is an error, not a panic and not an empty list.
func TestMalformedFile(t *testing.T) {
	for _, text := range []string{"", "x", "[]", `{"version":2}`, `{"version":1,"from":[{"url":"file:///x"}]}`, `{"version":1,"from":[{"ref":{"id":"x"}}]}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "remotes.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
	} {
		url, name, ok := SplitFrom(from)
		if got := [3]string{url, name, map[bool]string{true: "true", false: "false"}[ok]}; got != want {
			t.Errorf("%s: %q", from, got)
		}
	}
}
