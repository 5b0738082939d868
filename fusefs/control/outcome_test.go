package control

import (
	"fmt"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestKeptRestore: of a restore whose answer is not read yet, only the first paths are kept.
func TestKeptRestore(t *testing.T) {
	u := newUser(t)
	_, err := u.tree.Mkdir(u.dir, "v1", requestOf(u.who))
	must.OK(t, err)
	for i := range 150 {
		u.put(fmt.Sprint("f", i), "x")
	}

	must.OK(t, u.tree.Rename(u.dir, restoreName, u.dir, "restore@v1", 0, requestOf(u.who)))
	o := u.tree.cache.dirLocked(u.tree.store.Main()).outcomes[nodeKey{restoreName, anybody}]
	var answer strings.Builder
	must.OK(t, o.write(&answer))
	if n := strings.Count(answer.String(), `"path"`); n != 100 || !strings.Contains(answer.String(), `"more":true`) {
		t.Errorf("the answer has %d paths: %s", n, answer.String())
	}
}

// TestOutcomeWithoutRoom: a snapshot that was taken is no failed command, also if there is no room for its answer.
func TestOutcomeWithoutRoom(t *testing.T) {
	u := newUser(t)
	w := u.tree.cache.newContentWriter(u.tree.store.Main())
	must.OK(t, w.reserve(w.tenant.maxBytes-maxCommandBytes))
	must.OK(t, u.tree.cache.newContentWriter(u.tree.store.Main()).reserve(maxCommandBytes-10))
	must.OK(t, u.tree.commands.submit(u.tree.store.Main(), createName, nil, []byte("v1"), requestOf(u.who)))
	_, err := u.tree.store.Main().Find("v1")
	must.OK(t, err)
}
