package service

import (
	"strconv"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/handoff"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/tests/must"
)

// TestHandoffGoesToTheLastRemote: a handoff without a remote goes where the last handoff went, of any number.
func TestHandoffGoesToTheLastRemote(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	k, err := known.Open(t.TempDir(), known.Options{FS: vfs.OS})
	must.OK(t, err)
	defer k.Close()

	areas := map[string]*handoff.Area{}
	for i := range 20 {
		areas["file:///r/"+strconv.Itoa(i)] = &handoff.Area{LastUsed: time.Unix(int64(i), 0)}
	}
	rs, r := &remotes{registry: k}, &Request{Caller: actors.Caller{ViaSocket: true}}
	if url, err := rs.handoffURL(r, "", areas); err != nil || url != "file:///r/19" {
		t.Errorf("the handoff goes to %s, %v", url, err)
	}
}
