package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// TestConcurrentExports runs exports of one snapshot and of several snapshots to one repository at the same time.
func TestConcurrentExports(t *testing.T) {
	isolate(t)
	repo := bareRepo(t)
	m := trees.NewMemory()
	states := []*tree.State{
		m.Seal(t, m.State(t, trees.Spec{"f": trees.File("1\n"), "d/g": trees.File("2\n")})),
		m.Seal(t, m.State(t, trees.Spec{"f": trees.File("1\n"), "d/g": trees.File("3\n")})),
	}
	cacheDir := t.TempDir()
	var wg sync.WaitGroup
	do := func(i int, ref string, mayLose bool) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			info := testInfo
			info.Name = "v" + string(rune('1'+i%2))
			_, err := Export(context.Background(), ExportOptions{
				Source: m.Src, State: states[i%2], Info: info, Repo: repo, Ref: ref, CacheDir: cacheDir})
			if err != nil && !(mayLose && errors.Is(err, ErrRefMoved)) {
				t.Errorf("export %d: %v", i, err)
			}
		}()
	}
	for i := range 6 {
		do(i, "", false)              // the same again: the same commit
		do(i, "refs/contended", true) // one of two
	}
	wg.Wait()
	git(t, repo, "fsck", "--strict")
	for ref, want := range map[string]string{"v1": "2", "v2": "3"} {
		if got := git(t, repo, "cat-file", "-p", "refs/sandbox/snapshots/"+ref+":d/g"); got != want {
			t.Errorf("%s has %q, want %q", ref, got, want)
		}
	}
	git(t, repo, "rev-parse", "refs/contended")
	for _, left := range []string{"objects/tmp*", "refs/*.lock", "refs/*/*/*.lock"} {
		if names, _ := filepath.Glob(filepath.Join(repo, left)); names != nil {
			t.Errorf("left behind: %v", names)
		}
	}
}

// TestConcurrentExportsToTheStore: exports that run at the same time before the store's repository exists all succeed,
// also while DropRefs runs.
func TestConcurrentExportsToTheStore(t *testing.T) {
	isolate(t)
	m := trees.NewMemory()
	st := m.Seal(t, m.State(t, trees.Spec{"f": trees.File("1\n"), "d/g": trees.File("2\n")}))
	repo := filepath.Join(t.TempDir(), "git")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := Export(t.Context(), ExportOptions{
				Source: m.Src, State: st, Info: testInfo, Repo: repo, Create: true, Ref: fmt.Sprint("refs/forks/", i, "/v")})
			if err != nil {
				t.Errorf("export %d: %v", i, err)
			}
			if _, err := DropRefs(t.Context(), repo, func(string) bool { return false }); err != nil {
				t.Errorf("looking at refs after export %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	git(t, repo, "fsck", "--strict")
}

// TestExportDuringGitInit: an export waits while git init, in another export, has a symbolic link in the store's
// repository.
func TestExportDuringGitInit(t *testing.T) {
	isolate(t)
	m := trees.NewMemory()
	st := m.Seal(t, m.State(t, trees.Spec{"f": trees.File("1\n")}))
	repo := filepath.Join(t.TempDir(), "git")
	must.OK(t, os.Mkdir(repo, 0o700))
	must.OK(t, os.Symlink("testing", filepath.Join(repo, "tAbCdE")))
	ownRepoLock.Lock()
	ended := make(chan error, 1)
	go func() {
		_, err := Export(t.Context(), ExportOptions{Source: m.Src, State: st, Info: testInfo, Repo: repo, Create: true})
		ended <- err
	}()

	await.True(t, "an export waits or has ended", func() bool { return len(ended) > 0 || await.Waiting("", "gitbridge.initOwn") > 0 })
	must.OK(t, os.Remove(filepath.Join(repo, "tAbCdE")))
	ownRepoLock.Unlock()
	must.OK(t, <-ended)
}

// TestHalfAStoresRepository: a crash during the creation of the store's repository does not make later exports fail.
func TestHalfAStoresRepository(t *testing.T) {
	isolate(t)
	m := trees.NewMemory()
	st := m.Seal(t, m.State(t, trees.Spec{"f": trees.File("1\n")}))
	for _, missing := range []string{"HEAD", "objects", "refs", "config"} {
		repo := filepath.Join(t.TempDir(), "git")
		must.OK(t, initOwn(t.Context(), repo))
		must.OK(t, os.RemoveAll(filepath.Join(repo, missing)))
		_, err := Export(t.Context(), ExportOptions{Source: m.Src, State: st, Info: testInfo, Repo: repo, Create: true})
		if err != nil {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
