package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// sqlite runs a script; the figure is ms in all.
func sqlite(statements func(n int) (script string, transactions int)) func(w *work) (float64, error) {
	return func(w *work) (float64, error) {
		if _, err := exec.LookPath("sqlite3"); err != nil {
			return 0, &leftOut{"sqlite3 is not installed"}
		}
		script, transactions := statements(w.n(500))
		took, err := w.timed(transactions, func() error { return runSQL(w.b.ctx, name(w.dir, 0), script) })
		return ms(took), err
	}
}

func runSQL(ctx context.Context, file, script string) error {
	cmd := exec.CommandContext(ctx, "sqlite3", "-bail", file)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sqlite3: %w: %s", err, out)
	}
	return nil
}

// commits are transactions of one row.
func commits(n int) (string, int) {
	var sql strings.Builder
	sql.WriteString("create table t(a integer primary key, b text);\n")
	for i := range n {
		fmt.Fprintf(&sql, "insert into t(b) values ('row %d with some text');\n", i)
	}
	return sql.String(), n + 1
}

// mix follows the order of SQLite's own speed test: inserts with and without
// an index, ranges and text searched, updates and deletes, large and small
// transactions, and a vacuum at the end.
func mix(n int) (string, int) {
	var sql strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&sql, format+";\n", args...) }
	many := func(n int, do func(i int)) {
		put("begin")
		for i := range n {
			do(i)
		}
		put("commit")
	}
	scattered := func(i int) int { return i * 7919 % (100 * n) }
	put("create table a(id integer primary key, k integer, v text)")
	put("create table b(id integer primary key, k integer, v text)")
	put("create index bk on b(k)")
	many(50*n, func(i int) {
		put("insert into a(k, v) values (%d, 'value %d of a row of ordinary length')", scattered(i), i)
	})
	many(50*n, func(i int) {
		put("insert into b(k, v) values (%d, 'value %d of a row of ordinary length')", scattered(i), i)
	})
	many(20, func(i int) { put("select count(*), avg(k) from a where k between %d and %d", i*100, i*100+1000) })
	many(20, func(i int) { put("select count(*) from a where v like '%%%d %%'", i) })
	many(10*n, func(i int) { put("select v from b where k = %d", scattered(i)) })
	many(10*n, func(i int) { put("update b set v = 'another value %d' where k = %d", i, scattered(i)) })
	small := n / 2
	for i := range small {
		put("insert into b(k, v) values (%d, 'alone')", i)
		put("update a set k = k + 1 where id = %d", scattered(i)%(50*n))
		put("delete from b where k = %d", scattered(i))
	}
	put("insert into a(k, v) select k, v from b")
	put("delete from a where k %% 3 = 0")
	put("create index ak on a(k)")
	put("drop table b")
	put("vacuum")
	return sql.String(), 3*small + 14
}
