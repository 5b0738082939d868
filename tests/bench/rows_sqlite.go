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
