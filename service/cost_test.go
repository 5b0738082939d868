package service

import (
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/tests/must"
)

// TestHidingForkTakesTurns: the creation of a fork with hidden paths reads the whole tree, so its cost is CPUHeavy.
// The paths can be hidden by the arguments or by the policy of main.
func TestHidingForkTakesTurns(t *testing.T) {
	s, _ := newService(t)
	main := s.Store.Main()
	fork, err := main.Forks().New(snapshot.ForkOptions{Name: "f"})
	must.OK(t, err)

	check := func(ws *snapshot.Workspace, args any, want Cost) {
		t.Helper()
		if got := OpOf(args).CostOf(ws, args); got != want {
			t.Errorf("%+v costs %v, want %v", args, got, want)
		}
	}
	check(main, snapshot.ForkOptions{Name: "x"}, Cheap)
	check(fork, snapshot.ForkOptions{Name: "x", Hide: []string{"*"}}, CPUHeavy)

	_, err = main.PatchPolicy([]byte(`{"hide":["*.pem"]}`), actors.Caller{ViaSocket: true})
	must.OK(t, err)
	check(main, snapshot.ForkOptions{Name: "x"}, CPUHeavy)
	check(main, Claim{Label: "x"}, CPUHeavy)
	check(fork, snapshot.ForkOptions{Name: "x"}, Cheap)
}
