package control

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/service"
)

// TestFailureIsToldOnce: the log has one line for a command that failed, whether the service refused the command or the
// command did not reach the service.
func TestFailureIsToldOnce(t *testing.T) {
	u := newUser(t)
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	c := u.tree.commands.service.Config
	c.Log = log
	u.kernel.tree = New(Options{Service: service.New(c), Kernel: u.kernel})
	for _, failing := range []func() error{
		func() error { return u.write("restore", "nowhere\n") },
		func() error { return u.write("create", "{no json\n") },
		func() error {
			return u.tree.Rename(forksID(0), "none", forksID(0), "other", 0, requestOf(u.who))
		},
	} {
		b.Reset()
		if err := failing(); err == nil {
			t.Error("nothing failed")
		}
		if n := strings.Count(b.String(), "\n"); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, b.String())
		}
	}
}
