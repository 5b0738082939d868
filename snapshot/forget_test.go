package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/tests/must"
)

const secret = "SECRET=a4f8e1c09b7d3562 that nobody should have kept"

// holds reports which files of a store have some bytes.
func holds(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	must.OK(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if bytes.Contains(b, []byte(text)) {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// secretStore is a store with the secret in .env in snapshots of main and of a fork, and now.
func secretStore(t *testing.T, dir string) *snapshot.Store {
	t.Helper()
	s, err := snapshot.Open(dir, snapshot.Options{})
	must.OK(t, err)
	w := s.Main()
	write(t, s, w.Root(), ".env", secret)
	write(t, s, w.Root(), "kept", "kept")
	sealed(t, w, "v1")
	write(t, s, w.Root(), "kept", "kept, and changed")
	sealed(t, w, "v2")
	_, err = w.Forks().New(snapshot.ForkOptions{Name: "f", Snapshot: "v1"})
	must.OK(t, err)
	return s
}

func sealed(t *testing.T, w *snapshot.Workspace, name string) string {
	t.Helper()
	_, err := w.Capture(snapshot.CaptureOptions{Name: name})
	must.OK(t, err)
	i, err := w.Snapshots().WaitSealed(t.Context(), name)
	must.OK(t, err)
	return i.ID
}

// TestForgetKept: what is kept so that an undo can restore it loses the file as well.
func TestForgetKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := secretStore(t, dir)
	w := s.Main()
	_, _, err := w.Snapshots().Remove([]string{"v1"}, actors.Caller{})
	must.OK(t, err)
	f, err := w.Forks().Named("f")
	must.OK(t, err)
	write(t, s, f.Root(), "own", "of the fork")
	_, _, err = w.Forks().Remove("f", true, actors.Caller{})
	must.OK(t, err)

	done, err := forgetEnv(t.Context(), s, snapshot.ForgetOptions{Now: true})
	must.OK(t, err)
	if !done.Erased {
		t.Errorf("%+v", done)
	}
	if found := holds(t, dir, secret); len(found) > 0 {
		t.Errorf("the secret is in %s", found)
	}

	must.OK(t, s.Close())
	s, err = snapshot.Open(dir, snapshot.Options{})
	must.OK(t, err)
	w = s.Main()
	for _, op := range w.Ops().List() {
		_, _, err := w.Ops().Undo(t.Context(), op.Number, snapshot.MergeOptions{})
		must.OK(t, err)
	}
	isForgotten(t, s, true)
	f, err = w.Forks().Named("f")
	must.OK(t, err)
	if env, own := read(t, s, f.Root(), ".env"), read(t, s, f.Root(), "own"); env != "(none)" || own != "of the fork" {
		t.Errorf("the fork has %q and %q", env, own)
	}
	must.OK(t, s.Close())
}

func forgetEnv(ctx context.Context, s *snapshot.Store, o snapshot.ForgetOptions) (*forget.Receipt, error) {
	o.Paths = []naming.BytePath{".env"}
	return s.Main().Forget(ctx, o)
}

// isForgotten checks that no snapshot and, with all, no byte of the store has the secret.
func isForgotten(t *testing.T, s *snapshot.Store, all bool) {
	t.Helper()
	for _, name := range []string{"v1", "v2"} {
		i, err := s.Main().Find(name)
		must.OK(t, err)
		st, release, err := s.Main().HoldState(name)
		must.OK(t, err)
		n, err := st.InodeAt(s.Source(), ".env")
		if release(); n != nil || err != nil {
			t.Errorf("%s has .env: %v", name, err)
		}
		if len(i.FormerIDs) != 1 || i.ID == i.FormerIDs[0] {
			t.Errorf("%s: id %s, before %v", name, i.ID, i.FormerIDs)
		}
		if old, err := s.Main().Find(i.FormerIDs[0][:12]); err != nil || old.ID != i.ID {
			t.Errorf("the old id of %s leads to %s: %v", name, old.Name, err)
		}
	}

	proof, err := s.ForgottenContents().Verify(t.Context())
	must.OK(t, err)
	if !proof.OK() || len(proof.Receipts) != 1 || !proof.Receipts[0].Erased {
		t.Errorf("proof: %+v", proof)
	}
	r, err := s.Verify(t.Context(), nil)
	must.OK(t, err)
	if !r.OK() {
		t.Errorf("damage: %+v", r)
	}
	if found := holds(t, s.Dir(), secret); all && len(found) > 0 {
		t.Errorf("the secret is in %s", found)
	}
}

// TestForget: snapshots lose a file and keep their names; the present states keep it without Now.
func TestForget(t *testing.T) {
	for _, now := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "store")
		s := secretStore(t, dir)

		would, err := forgetEnv(t.Context(), s, snapshot.ForgetOptions{DryRun: true, Now: now})
		must.OK(t, err)
		if len(holds(t, dir, secret)) == 0 || len(would.Removed) != 2 || (len(would.Kept) == 0) != now {
			t.Errorf("now %t: a dry run: %+v", now, would)
		}

		done, err := forgetEnv(t.Context(), s, snapshot.ForgetOptions{Now: now})
		must.OK(t, err)
		if !done.Erased || (done.Objects > 0) != now || done.Objects != would.Objects {
			t.Errorf("now %t: %+v", now, done)
		}

		isForgotten(t, s, now)
		want := secret
		if now {
			want = "(none)"
		}
		f, err := s.Main().Forks().Named("f")
		must.OK(t, err)
		for _, w := range []*snapshot.Workspace{s.Main(), f} {
			if got := read(t, s, w.Root(), ".env"); got != want {
				t.Errorf("now %t: %s has %q", now, w.Name(), got)
			}
		}

		must.OK(t, s.Close())
		s, err = snapshot.Open(dir, snapshot.Options{})
		must.OK(t, err)
		isForgotten(t, s, now)
		if _, err := forgetEnv(t.Context(), s, snapshot.ForgetOptions{}); errs.KindOf(err) != errs.NotExist {
			t.Errorf("forgotten again: %v", err)
		}
		must.OK(t, s.Close())
	}
}

// TestForgetKilled: a copy of the store right after the record, as a kill leaves it, is finished by the
// next start. A copy from before has not begun.
func TestForgetKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := secretStore(t, dir)
	must.OK(t, s.Sync())
	before, after := dir+".before", dir+".after"
	must.CopyStore(t, before, dir)
	s.Hooks.OnEvent(func(e events.Event, _ actors.Caller) {
		if e.Action == "forgot" {
			must.CopyStore(t, after, dir)
		}
	})
	_, err := forgetEnv(t.Context(), s, snapshot.ForgetOptions{Now: true})
	must.OK(t, err)
	must.OK(t, s.Close())
	if len(holds(t, after, secret)) == 0 {
		t.Fatal("the copy was made too late")
	}

	s, err = snapshot.Open(after, snapshot.Options{})
	must.OK(t, err)
	must.OK(t, s.ForgottenContents().CompleteErasure(t.Context(), nil))
	isForgotten(t, s, true)
	must.OK(t, s.Close())

	s, err = snapshot.Open(before, snapshot.Options{})
	must.OK(t, err)
	st, release, err := s.Main().HoldState("v1")
	must.OK(t, err)
	defer release()
	if n, err := st.InodeAt(s.Source(), ".env"); n == nil || err != nil {
		t.Errorf("before: %v", err)
	}
	must.OK(t, s.Close())
}

// TestForgetContent: equal files go under every name, and the bytes in other files are overwritten.
func TestForgetContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := secretStore(t, dir)
	w := s.Main()
	write(t, s, w.Root(), "copy", secret)
	write(t, s, w.Root(), "within", "before\n"+secret+"\nafter\n")
	sealed(t, w, "v3")

	done, err := w.Forget(t.Context(), snapshot.ForgetOptions{Content: []byte(secret), Now: true})
	must.OK(t, err)
	if !done.Erased || !slices.ContainsFunc(done.Removed, func(p forget.Place) bool { return p.Path == "copy" }) {
		t.Errorf("%+v", done)
	}
	isForgotten(t, s, true)
	want := "before\n" + strings.Repeat("*", len(secret)) + "\nafter\n"
	if got := read(t, s, w.Root(), "within"); got != want {
		t.Errorf("within: %q", got)
	}
	must.OK(t, s.Close())
}

// TestForgetMatch: what a pattern matches is overwritten, in the chosen snapshots only.
func TestForgetMatch(t *testing.T) {
	s := secretStore(t, filepath.Join(t.TempDir(), "store"))
	text := func(name string) string {
		st, release, err := s.Main().HoldState(name)
		must.OK(t, err)
		defer release()
		n, err := st.InodeAt(s.Source(), ".env")
		must.OK(t, err)
		b := make([]byte, n.Size())
		_, err = n.Content.ReadAt(s.Source().Files, b, 0)
		must.OK(t, err)
		return string(b)
	}

	_, err := s.Main().Forget(t.Context(), snapshot.ForgetOptions{Match: []string{`SECRET=(\S+)`}, In: []string{"v2.."}})
	must.OK(t, err)
	if got := text("v2"); got != strings.Replace(secret, "a4f8e1c09b7d3562", "****************", 1) {
		t.Errorf("v2: %q", got)
	}
	if got := text("v1"); got != secret {
		t.Errorf("v1: %q", got)
	}

	for _, wrong := range []snapshot.ForgetOptions{{}, {Match: []string{"("}}, {Paths: []naming.BytePath{"."}}, {Paths: []naming.BytePath{"kept"}, Secrets: true}} {
		if _, err := s.Main().Forget(t.Context(), wrong); !errors.Is(err, errs.Invalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	must.OK(t, s.Close())
}
