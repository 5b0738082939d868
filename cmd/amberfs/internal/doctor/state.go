package doctor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/here"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/hooks"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// Limits of free space: below minSpaceBytes a disk counts as full, and below lowSpaceBytes as nearly full.
const (
	lowSpaceBytes = 1 << 30
	minSpaceBytes = 64 << 20
)

// examineSpace examines the disks with the runs and with temporary stores.
func examineSpace() []Check {
	root, err := runs.StoresDir()
	if err != nil {
		return []Check{{"runs", Failed, err.Error(), "name a directory in AMBERFS_RUNS"}}
	}

	return []Check{checkSpace("free space for runs", root, "AMBERFS_RUNS"), checkSpace("free space for temporary stores", os.TempDir(), "TMPDIR")}
}

// checkSpace examines the disk of a directory. variable is the environment variable with which the user can choose
// another directory.
func checkSpace(name, dir, variable string) Check {
	var st unix.Statfs_t
	existing := dir
	err := unix.Statfs(existing, &st)
	for ; errors.Is(err, unix.ENOENT) && existing != "/"; err = unix.Statfs(existing, &st) {
		existing = filepath.Dir(existing) // amberfs makes the directory when it needs it
	}
	if err != nil {
		return Check{name, Failed, dir + ": " + err.Error(), "name another directory in " + variable}
	}

	free := int64(st.Bavail) * st.Bsize
	c := okCheck(name, service.BytesText(free)+" at "+dir)
	remedy := "free space, or name a directory on another disk in " + variable

	switch {
	case unix.Access(existing, unix.W_OK) != nil:
		c.State, c.Finding, c.Remedy = Failed, "you cannot write to "+existing, "name another directory in "+variable
	case st.Files > 0 && st.Ffree == 0:
		c.State, c.Finding, c.Remedy = Failed, "no inodes are left at "+dir, remedy
	case free < minSpaceBytes:
		c.State, c.Remedy = Failed, remedy
	case free < lowSpaceBytes:
		c.State, c.Remedy = Warning, remedy
	}

	return c
}

// examineWatches compares the limits of inotify(7) with the needs of editors and build tools.
func examineWatches() Check {
	const enoughWatches, enoughInstances = 65536, 128
	watches, _ := strconv.Atoi(sysctl("fs/inotify/max_user_watches"))
	instances, _ := strconv.Atoi(sysctl("fs/inotify/max_user_instances"))
	c := okCheck("inotify", fmt.Sprintf("%d watches, %d instances", watches, instances))

	if watches < enoughWatches || instances < enoughInstances {
		c.State, c.Finding = Warning, c.Finding+": few for editors and watchers in a large tree"
		c.Remedy = fmt.Sprintf("sysctl fs.inotify.max_user_watches=%d fs.inotify.max_user_instances=%d", 8*enoughWatches, 4*enoughInstances)
	}

	return c
}

// examineProgram examines whether hooks and scripts find amberfs in the PATH.
func examineProgram() Check {
	path, err := exec.LookPath("amberfs")
	if err != nil {
		return Check{"amberfs", Warning, "it is not in the PATH, where hooks, plugins and clients look for it", "sudo make install, or add its directory to the PATH"}
	}
	return okCheck("amberfs", path)
}

// examineHooks looks for hooks in the settings of agents, and at the log of hooks that failed.
func examineHooks(dir string) (checks []Check) {
	home, _ := os.UserHomeDir() // after an error, only the settings in dir are looked at
	installedIn := "none in the settings here or in your home"
	if installed := hooks.FilesWithHook(dir, home); len(installed) > 0 {
		installedIn = strings.Join(installed, ", ")
	}

	checks = append(checks, okCheck("hooks", installedIn))
	log, last := hooks.UserFailures().LastFailure()
	switch {
	case log == "":
		return append(checks, okCheck("hook log", "no hook has failed"))
	case strings.Contains(last, locate.ErrNotMounted.Error()):
		return append(checks, Check{"hook log", Warning, "the last failure: " + last, "start the agent in a run: amberfs run --from . -- AGENT; the log: " + log})
	}

	return append(checks, Check{"hook log", Warning, "the last failure: " + last, "see " + log + ", and remove it when that is settled"})
}

// examineMounts looks for mounts whose daemons do not answer, and for stores in use.
func examineMounts() (checks []Check) {
	table, err := locate.Mounts()
	if err != nil {
		return []Check{{"mounts", Failed, err.Error(), "mount /proc"}}
	}

	answering := 0
	stores := map[string]bool{}
	for _, m := range table {
		if m.Root != "/" || !locate.IsTrusted(m) {
			continue
		}

		stores[m.Source] = true
		state := here.MountState(m)
		if state == here.Mounted {
			answering++
			continue
		}

		remedy := "amberfs mount " + m.Source + " " + m.Mountpoint
		if state == here.Hanging {
			remedy = "see " + m.Source + "/amberfs.log, or give it up: amberfs umount -l " + m.Mountpoint
		}
		checks = append(checks, Check{"mount", Failed, m.Mountpoint + " is " + state, remedy})
	}

	checks = append(checks, okCheck("mounts", fmt.Sprintf("%d answer", answering)))
	runStores, _ := runs.Stores() // examineSpace reports a directory that cannot be read
	for _, s := range runStores {
		stores[s] = true
	}

	return append(checks, storeInUseChecks(stores)...)
}

// storeInUseChecks returns a check for each store that a daemon has open.
func storeInUseChecks(stores map[string]bool) (checks []Check) {
	for _, store := range slices.Sorted(maps.Keys(stores)) {
		h, err := storedir.ReadHolder(store)
		if err != nil || h.PID == 0 || process.ProgramName(h.PID) != "amberfs" {
			continue
		}

		location := ""
		if h.Mountpoint != "" {
			location = ", at " + h.Mountpoint
		}
		checks = append(checks, okCheck("store in use", fmt.Sprintf("%s by pid %d%s", store, h.PID, location)))
	}

	return checks
}
