package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	bin := flag.String("bin", "bin/amberfs", "the amberfs binary")
	only := flag.String("rows", "", "comma-separated names of the rows to run; all when empty")
	repeat := flag.Int("repeat", 5, "repetitions")
	scale := flag.Float64("scale", 1, "multiplies the size of the work")
	dir := flag.String("dir", "", "where to work; a new directory of the temporary one when empty")
	out := flag.String("o", "", "append the results to this file as JSON lines")
	list := flag.Bool("list", false, "list the rows")
	flag.Parse()

	if *list {
		for _, r := range rows {
			fmt.Printf("%-14s %s\n", r.name, r.what)
		}
		return nil
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	absBin, err := filepath.Abs(*bin)
	if err != nil {
		return err
	}
	base, err := os.MkdirTemp(*dir, "amberfs-bench-")
	if err != nil {
		return err
	}
	b := &bench{base: base, bin: absBin, scale: *scale}
	defer b.close()
	b.open()

	// Interrupted, it finishes the row, reports, and leaves nothing mounted.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	var results []result
	for _, r := range chosen {
		if ctx.Err() != nil {
			fmt.Fprintln(os.Stderr, "interrupted")
			break
		}
		rs, err := b.measure(r, *repeat)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		results = append(results, rs...)
	}
	m := thisMachine()
	report(os.Stdout, m, results)
	if *out != "" {
		return appendJSON(*out, m, results)
	}
	return nil
}

func choose(only string) ([]row, error) {
	if only == "" {
		return rows, nil
	}
	var chosen []row
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no row %q (see -list)", name)
		}
		chosen = append(chosen, rows[i])
	}
	return chosen, nil
}
