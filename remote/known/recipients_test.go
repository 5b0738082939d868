package known

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestRecipientsAreKept: the store remembers the recipients of a remote. If the service removes or adds recipients
// in the format, the remote is refused until it is removed and added again.
func TestRecipientsAreKept(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	ctx, dir, at := context.Background(), t.TempDir(), t.TempDir()
	url, keys := "file://"+at, [2]string{}
	for i := range keys {
		id, err := age.GenerateX25519Identity()
		must.OK(t, err)
		keys[i] = id.Recipient().String()
	}
	format := func(k *Registry) ([]string, error) {
		t.Helper()
		r, err := k.Remote(url)
		must.OK(t, err)
		f, err := r.Format(ctx)
		if err != nil {
			return nil, err
		}
		return f.Recipients, nil
	}
	k := open(t, dir)
	r, err := k.Remote(url)
	if err == nil {
		_, err = r.Init(ctx, keys[:1], func(w string) { t.Log(w) })
	}
	if err == nil {
		err = k.Add("box", url)
	}
	must.OK(t, err)
	file := filepath.Join(at, "format")
	was, err := os.ReadFile(file)
	must.OK(t, err)
	for name, now := range map[string]string{
		"none":     strings.Replace(string(was), `["`+keys[0]+`"]`, `[]`, 1),
		"no field": strings.Replace(string(was), `"recipients"`, `"x"`, 1),
		"another":  strings.Replace(string(was), keys[0], keys[1], 1),
		"one more": strings.Replace(string(was), keys[0], keys[0]+`","`+keys[1], 1),
	} {
		if err := os.WriteFile(file, []byte(now), 0o600); err != nil || now == string(was) {
			t.Fatal(err, now)
		}
		if got, err := format(open(t, dir)); !errors.Is(err, errs.Perm) || !strings.Contains(err.Error(), "remote add") {
			t.Errorf("%s: encrypted to %v, %v", name, got, err)
		}
	}
	// The user agrees to the recipients that were written last.
	k = open(t, dir)
	if _, err := format(k); err == nil {
		t.Error("no error the second time")
	}
	must.OK(t, k.Remove("box"))
	if _, err := format(k); err != nil {
		t.Errorf("after it was removed: %v", err)
	}
	must.OK(t, k.Add("box", url))
	must.OK(t, os.WriteFile(file, was, 0o600))
	if _, err := format(open(t, dir)); !errors.Is(err, errs.Perm) {
		t.Errorf("what was agreed to is not kept: %v", err)
	}
}
