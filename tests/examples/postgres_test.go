package examples_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

const (
	postgres = `
set -e
bin=$(echo /usr/lib/postgresql/*/bin) data=$(echo /var/lib/postgresql/*/main) conf=$(echo /etc/postgresql/*/main/postgresql.conf)
mkdir -p /run/postgresql && chown postgres /run/postgresql
pg() { su postgres -c "$*"; }
start() { pg "$bin/pg_ctl -s -w -D $data -o '-c config_file=$conf -c listen_addresses=' -l /tmp/log start" </dev/null >/dev/null; }
stop() { pg "$bin/pg_ctl -s -w -D $data stop"; }
`
	pgLoad = postgres + `
pg "$bin/pg_checksums --enable -D $data"
start
pg "psql -qc 'create extension amcheck' && pgbench -q -i -s 5"
: > /tmp/loaded
until [ -e /tmp/stop ]; do pg "pgbench -n -c 4 -T 2"; done
stop
`
	pgCheck = postgres + `
rm -f $data/postmaster.pid
start
pg "$bin/pg_amcheck --all --heapallindexed --install-missing"
pg "psql -Atc 'select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history),
	(select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches)'"
stop
pg "$bin/pg_checksums --check -D $data"
`
)

// TestPostgres forks a container with a database under load: the fork starts and is whole.
func TestPostgres(t *testing.T) {
	if !harness.Long() || os.Getuid() != 0 {
		t.Skip("only in the long form, as root: it installs a Debian system")
	}
	harness.Needs(t, "debootstrap", "runc")
	root := filepath.Join(t.TempDir(), "root")
	run(t, "/", "debootstrap", "--variant=minbase", "--include=postgresql", "stable", root)
	m := harness.New(t, "--from", root, "-o", "allow_other")
	db := m.Path(".forks/db")
	load := command(t, "/", example(t, "containers/runc"), m.Dir, "db", "/bin/sh", "-c", pgLoad)
	must(t, load.Start())
	harness.Eventually(t, "the database is under load", func() bool {
		_, err := os.Stat(filepath.Join(db, "tmp/loaded"))
		return err == nil
	})
	for i := range harness.Count(t, "ROUNDS", 1, 20) {
		name := fmt.Sprint("copy", i)
		must(t, os.Mkdir(filepath.Join(db, ".forks", name), 0o755))
		if out := run(t, "/", example(t, "containers/runc"), db, name, "/bin/sh", "-c", pgCheck); !strings.Contains(out, "t|t\n") {
			t.Errorf("round %d: %s", i, out)
		}
		m.Amberfs("-C", db, "fork", "--discard", name)
	}
	write(t, filepath.Join(db, "tmp/stop"), "")
	must(t, load.Wait())
}
