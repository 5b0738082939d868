package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var b bench
	bin := flag.String("bin", "bin/amberfs", "the amberfs binary")
	only := flag.String("rows", "", "comma-separated names, or beginnings of names, of the rows to run; when empty, all that are not marked * by -list")
	places := flag.String("places", "", "comma-separated names of the places to run in; all when empty")
	flag.IntVar(&b.repeat, "repeat", 7, "samples of each row, after one to warm up")
	flag.Float64Var(&b.scale, "scale", 1, "multiplies the size of the work")
	dir := flag.String("dir", "", "where to work; a new directory of the temporary one when empty")
	out := flag.String("o", "", "append the results to this file as JSON lines")
	list := flag.Bool("list", false, "list the rows")
	writes := flag.Bool("docs", false, "write the tables of the documentation from "+current)
	flag.Parse()

	took := secondsOf(current)
	if *list {
		for _, r := range rows {
			mark := " "
			if r.named {
				mark = "*"
			}
			fmt.Printf("%s %-16s %5.0f s  %-62s %s\n", mark, r.name, took[r.name], r.what+" ("+r.unit+")", r.reach)
		}
		return nil
	}
	if *writes {
		return writeDocs(".")
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if b.bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	if b.base, err = os.MkdirTemp(*dir, "amberfs-bench-"); err != nil {
		return err
	}
	// Interrupted, it ends the row, reports, and leaves nothing mounted.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	b.ctx = ctx
	defer b.close()
	b.open(*places)

	var estimate float64
	for _, r := range chosen {
		estimate += took[r.name]
	}
	fmt.Fprintf(os.Stderr, "The documented rows among these took %.0f minutes.\n", estimate/60)
	start, m := time.Now(), thisMachine()
	var lines []line
	var failed error
	for _, r := range chosen {
		rs, err := b.measure(r)
		if ctx.Err() != nil {
			failed = errors.New("interrupted")
			break
		}
		var left *leftOut
		if errors.As(err, &left) {
			fmt.Fprintf(os.Stderr, "without %s: %v\n", r.name, left)
			continue
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", r.name, err)
			failed = errors.Join(failed, fmt.Errorf("%s failed", r.name))
			continue
		}
		var ls []line
		for _, r := range rs {
			ls = append(ls, line{m, r})
		}
		lines = append(lines, ls...)
		if *out != "" {
			if err := appendJSON(*out, ls); err != nil {
				return err
			}
		}
	}
	report(os.Stdout, lines)
	fmt.Printf("\n%.1f minutes in all\n", time.Since(start).Minutes())
	return failed
}

// secondsOf is how long rows took when they were kept in a file.
func secondsOf(name string) map[string]float64 {
	lines, _ := readLines(name) // a file that is missing has none
	took := map[string]float64{}
	for _, l := range lines {
		took[l.Row] = l.Seconds
	}
	return took
}

// choose finds rows by name, or by how their names begin, in the order of the
// table.
func choose(only string) ([]row, error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.named }), nil
	}
	var chosen []row
	for _, r := range rows {
		if slices.ContainsFunc(strings.Split(only, ","), func(name string) bool {
			exact := slices.ContainsFunc(rows, func(r row) bool { return r.name == name })
			return r.name == name || !exact && strings.HasPrefix(r.name, name)
		}) {
			chosen = append(chosen, r)
		}
	}
	for name := range strings.SplitSeq(only, ",") {
		if !slices.ContainsFunc(chosen, func(r row) bool { return strings.HasPrefix(r.name, name) }) {
			return nil, fmt.Errorf("there is no row %q (see -list)", name)
		}
	}
	return chosen, nil
}
