// Package doctor examines whether amberfs can work on this system, and names remedies for its problems.
package doctor

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/internal/process"
)

// The states of a check.
const (
	OK      = "ok"
	Warning = "warning" // a part of amberfs does not work, or will stop working soon
	Failed  = "failed"  // amberfs cannot work
)

// A Check is the result of one examination.
type Check struct {
	Name    string `json:"name"`
	State   string `json:"state" jsonschema:"ok, warning or failed"`
	Finding string `json:"found"`
	Remedy  string `json:"remedy,omitempty"`
}

// A Report has all checks.
type Report struct {
	OK      bool    `json:"ok" jsonschema:"no check failed"`
	Version string  `json:"version"`
	System  string  `json:"system"`
	Checks  []Check `json:"checks"`
}

// A Subject has the arguments of Examine.
type Subject struct {
	Dir     string // the directory whose agent settings are searched for hooks
	Version string
	System  string
}

// Examine makes all checks. It does not change the system.
func Examine(ctx context.Context, s Subject) Report {
	namespaceCheck := examineNamespaces(ctx)
	r := Report{Version: s.Version, System: s.System, Checks: []Check{
		examineDevice(), examineKernel(), examineHelper(namespaceCheck.State == OK), namespaceCheck,
		examineBarrier(namespaceCheck.State == OK, sysctl(appArmorSysctl) == "1", "it restricts no user namespaces", "it restricts user namespaces, but not those of amberfs",
			Check{"apparmor", Warning, "it refuses user namespaces to amberfs", "install amberfs with its profile: sudo make install, or the Debian package"}),
		examineBarrier(namespaceCheck.State == OK, process.OwnStatusField("Seccomp") == "2", "no filter", "a filter lets amberfs work",
			Check{"seccomp", Warning, "a filter is on, as in containers: it may refuse unshare and mount", "docker run --security-opt seccomp=unconfined"}),
	}}

	r.Checks = append(r.Checks, examineSpace()...)
	r.Checks = append(r.Checks, examineWatches(), examineProgram())
	r.Checks = append(r.Checks, examineHooks(s.Dir)...)
	r.Checks = append(r.Checks, examineMounts()...)
	r.OK = !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.State == Failed })

	return r
}

// okCheck returns a check with the state OK.
func okCheck(name, text string) Check { return Check{Name: name, State: OK, Finding: text} }
