package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

const composeFile = `services:
  build:
    image: localhost/box
    volumes: ["./src:/src"]
    command: ["sh", "-ec", "cat /src/f; echo built > /src/out"]
`

// noNetwork is a podman without networks, which a machine need not let it make.
const noNetwork = `#!/bin/bash
[ "$1" != network ] || exit 0
args=()
while [ $# != 0 ]; do
	case $1 in
	--net | --network-alias) shift ;;
	*) args+=("$1") ;;
	esac
	shift
done
exec PODMAN "${args[@]}"
`

// TestCompose: containers that are started in a mounted workspace have its files, and write to it.
func TestCompose(t *testing.T) {
	harness.SkipWithout(t, "podman", "podman-compose")
	root, dir := system(t), t.TempDir()
	containersConf(t)
	if os.Getuid() != 0 {
		podmanOfItsOwn(t)
	}
	state, err := os.MkdirTemp("/tmp", "podman") // with a path of 50 bytes at most
	must.OK(t, err)
	t.Cleanup(func() {
		if os.Getuid() != 0 {
			run(t, "/", "podman", "unshare", "rm", "-rf", state)
		}
		must.OK(t, os.RemoveAll(state))
	})
	conf := filepath.Join(dir, "storage.conf")
	write(t, conf, "[storage]\ndriver=\"vfs\"\ngraphroot=\""+state+"/graph\"\nrunroot=\""+state+"/run\"\n")
	t.Setenv("CONTAINERS_STORAGE_CONF", conf)
	podman, err := exec.LookPath("podman")
	must.OK(t, err)
	write(t, filepath.Join(dir, "bin/podman"), strings.Replace(noNetwork, "PODMAN", podman, 1))
	must.OK(t, os.Chmod(filepath.Join(dir, "bin/podman"), 0o755))
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	project := filepath.Join(dir, "project")
	write(t, filepath.Join(project, "src/f"), "of the project\n")
	write(t, filepath.Join(project, "compose.yaml"), composeFile)
	m := harness.New(t, "--from", project)
	write(t, m.Path("src/f"), "of the workspace\n")
	// An ordinary user's podman sees the mounts that were there before its first command and, where
	// / is shared, later ones.
	run(t, root, "sh", "-ec", "tar -cf - . | podman import - localhost/box")
	out := run(t, m.Path(), "podman-compose", "up")
	t.Log(out)
	wantFile(t, m.Path("src/out"), "built\n")
	wantGone(t, filepath.Join(project, "src/out"))
	run(t, m.Path(), harness.Binary(t), "apply", "--yes", project)
	wantFile(t, filepath.Join(project, "src/out"), "built\n")
}
