package examples_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

const (
	// database makes the root directory $1 of PostgreSQL $2 and what it needs of this machine.
	database = `
cd "$1"
mkdir bin etc tmp srv
chmod 1777 tmp
cp "$(command -v busybox)" bin/busybox
for name in sh cat mkdir chown rm; do ln -s busybox bin/$name; done
printf 'root:x:0:0::/root:/bin/sh\npostgres:x:70:70::/srv:/bin/sh\n' >etc/passwd
printf 'root:x:0:\npostgres:x:70:\n' >etc/group
programs="$(find /usr/lib/postgresql/$2 -type f ! -path '*/bitcode/*' ! -name 'llvm*') /usr/bin/setpriv"
libraries=$(ldd $programs 2>/dev/null | sed -n 's/.*[[:blank:]]\(\/[^ ]*\) (0x.*/\1/p' | sort -u)
cp --parents -L $programs $libraries $(find /usr/share/postgresql/$2 -type f) .
`
	postgres = `
set -e
data=/srv/data
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
pg() { /usr/bin/setpriv --reuid postgres --regid postgres --clear-groups sh -ec "$*"; }
start() { pg "pg_ctl -s -w -D $data -o '-k /tmp -c listen_addresses=' -l /tmp/log start" </dev/null >/dev/null || { cat /tmp/log; false; }; }
stop() { pg "pg_ctl -s -w -D $data stop"; }
export PGHOST=/tmp
`
	pgLoad = postgres + `
mkdir $data
chown postgres $data
pg "initdb -k -D $data --locale=C >/dev/null"
start
pg "psql -qc 'create extension amcheck' && pgbench -q -i -s 1"
until [ -e /tmp/stop ]; do pg "pgbench -n -c 4 -T 2"; : > /tmp/loaded; done
stop
`
	pgCheck = postgres + `
rm -f $data/postmaster.pid
start
pg "pg_amcheck --all --heapallindexed --install-missing"
pg "psql -Atc 'select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history),
	(select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches), count(*) > 0 from pgbench_history'"
stop
pg "pg_checksums --check -D $data"
`
)

// TestPostgres forks a container with a database under load: the fork starts and is whole.
func TestPostgres(t *testing.T) {
	if !harness.LongTests() {
		t.Skip("make test-long runs it")
	} else if os.Getuid() != 0 {
		t.Skip("needs root: the database has a user of its own")
	}
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_amcheck")
	if len(installed) == 0 {
		t.Skip("PostgreSQL is not installed, or older than 14")
	}
	harness.SkipWithout(t, "busybox", "runc", "python3")
	version := filepath.Base(filepath.Dir(filepath.Dir(installed[0])))
	root := t.TempDir()
	run(t, "/", "sh", "-ec", database, "sh", root, version)
	m := harness.New(t, "--from", root, "-o", "allow_other")
	db := m.Path(".forks/db")
	var log bytes.Buffer
	load := command(t, "/", example(t, "containers/runc"), m.Dir, "db", "/bin/sh", "-c", pgLoad)
	load.Stdout, load.Stderr = &log, &log
	must.OK(t, load.Start())
	ended := make(chan error, 1)
	go func() { ended <- load.Wait() }()
	harness.Eventually(t, "the database is under load", func() bool {
		_, err := os.Stat(filepath.Join(db, "tmp/loaded"))
		select {
		case failed := <-ended:
			t.Fatalf("%v: %s", failed, log.String())
		default:
		}
		return err == nil
	})
	for i := range harness.Count(t, "ROUNDS", 1, 20) {
		name := fmt.Sprint("copy", i)
		must.OK(t, os.Mkdir(filepath.Join(db, ".forks", name), 0o755))
		if out := run(t, "/", example(t, "containers/runc"), db, name, "/bin/sh", "-c", pgCheck); !strings.Contains(out, "t|t|t\n") {
			t.Errorf("round %d: %s", i, out)
		}
		m.Amberfs("-C", db, "fork", "--discard", name)
	}
	write(t, filepath.Join(db, "tmp/stop"), "")
	if err := <-ended; err != nil {
		t.Errorf("%v: %s", err, log.String())
	}
}
