package kubernetes

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/tests/harness"
)

// daemon returns the process of a node's daemon, the child of its keeper, and 0 if there is none now.
// Pods have the network of their node, by which it is found.
func (c *cluster) daemon(node string) int {
	network := ""
	parents := map[int]int{} // of daemons
	keepers := map[int]bool{}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		switch filepath.Base(args[0]) {
		case "kubelet":
			if slices.Contains(args, "--hostname-override="+node) {
				network = namespace(pid)
			}
		case "amberfs":
			keepers[pid] = true
			if slices.Contains(args, "mount") {
				parents[pid] = harness.ParentPID(pid)
			}
		}
	}
	for pid, parent := range parents {
		if keepers[parent] && namespace(pid) == network {
			return pid
		}
	}
	return 0
}

func namespace(pid int) string {
	s, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
	return s
}

// stored returns how many bytes there are in the store of a node.
func (c *cluster) stored(node string) (n int64) {
	_ = filepath.WalkDir(filepath.Join(c.dir, node, "var/lib/amberfs/store"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
