package examples_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// storage uses an engine, whose command is $engine, with its storage in $mount.
const storage = `
set -e
cp "$(command -v busybox)" busybox
{
	echo FROM scratch
	echo COPY busybox /bin/busybox
	echo 'RUN ["/bin/busybox", "--install", "-s", "/bin"]'
	for i in 1 2 3 4 5 6 7 8; do echo "RUN mkdir /d$i; echo $i > /d$i/f; echo $i > /shared; rm -rf /d$((i-1))"; done
} >Dockerfile
state() { $engine images -q --no-trunc | sort; $engine ps -aq --no-trunc; $engine diff one | sort; }
container() { $engine run --network=none "$@"; }
start
$engine build --network=none -t ten . >log 2>&1 || { cat log; exit 1; }
container --name one ten sh -ec 'test ! -e /d7; grep 8 /d8/f; grep 8 /shared; rm /shared; mv /d8 /d9; echo n > /new'
container --name again ten echo again
$engine commit one two >log 2>&1
container --rm two sh -ec 'grep 8 /d9/f; grep n /new; test ! -e /shared; test ! -e /d8'
state >before
stop
mkdir "$mount/.snapshots/then"
start
$engine rm one again
$engine rmi two
container --name busy -d ten sleep 1000
if mv "$mount/.snapshots/restore" "$mount/.snapshots/restore@then" 2>refused; then exit 1; fi
grep 'resource busy' refused
$engine rm -f busy
$engine rmi ten
$engine system prune -af
test -z "$($engine images -q)"
stop
mv "$mount/.snapshots/restore" "$mount/.snapshots/restore@then"
start
state | diff before -
$engine start -a again
container --rm two sh -ec 'grep 8 /d9/f; grep n /new; test ! -e /shared'
$engine rm one again
container --rm ten grep 8 /shared
stop
`

const docker = `
export DOCKER_BUILDKIT=0
engine="docker -H unix://$PWD/socket"
start() {
	dockerd --data-root "$mount/data" --exec-root "$PWD/exec" --pidfile "$PWD/pid" -H "unix://$PWD/socket" --iptables=false --bridge=none --ip-forward=false >>dockerd 2>&1 &
	daemon=$!
	until $engine version >/dev/null 2>&1; do kill -0 $daemon; sleep 0.1; done
}
stop() { kill $daemon; wait $daemon || true; daemon=; }
trap 'test -z "$daemon" || { stop; cat dockerd; }' EXIT
`

const podman = `
engine="podman --root $mount/data --runroot $PWD/run --storage-driver overlay"
start() { :; }
stop() { rm -f /run/libpod/alive; }
trap '$engine rm -f -t 0 -a || :; umount "$mount/data/overlay" || :' EXIT
`

// TestStorage: Docker and podman keep their images and containers in a mount. After a restore
// they find what they had then.
func TestStorage(t *testing.T) {
	if !harness.LongTests() {
		t.Skip("make test-long runs it")
	} else if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	harness.SkipWithout(t, "busybox")
	containersConf(t)
	for engine, script := range map[string]string{"dockerd": docker, "podman": podman} {
		t.Run(engine, func(t *testing.T) {
			if _, err := exec.LookPath(engine); err != nil {
				t.Skip(err)
			}
			m := harness.New(t, "-o", "allow_other,dev,suid")
			dir, err := os.MkdirTemp("/tmp", "engine") // sockets have short paths
			must.OK(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			cmd := command(t, dir, "sh", "-xc", script+storage)
			cmd.Env = append(cmd.Env, "mount="+m.Dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
