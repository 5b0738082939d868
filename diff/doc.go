// Package diff says how two states of a tree differ, in the words of git.
//
// Three outputs share one list of changed files ([Files]): [Write] makes a unified diff
// that `git apply` takes, forwards and backwards (-R); [NameStatus] prints a
// letter and a path a line; [Stat] draws the histogram of `git diff --stat`.
//
// # What is compared
//
// tree.Diff walks both states at once and passes over everything that is
// shared, so the cost is that of what differs, not of the trees. Of what it
// finds, this package keeps what git knows about: regular files, their
// contents and the owner's execute bit, and symbolic links. Directories exist
// only as prefixes of names. Times, owners, other permission bits, extended
// attributes, hard links, FIFOs, sockets and devices make no line here.
//
// Paths with a component that git takes for its own directory (".git" in any
// case) are left out of Write and Stat: git apply refuses a whole patch because
// of one such path. NameStatus lists them, as `git diff --no-index` does.
//
// # Renames
//
// A file that went away and one that came are joined into a rename by the
// rules of git's diffcore-rename, so that the letters and the similarity
// numbers are those of `git diff -M`: first equal contents, preferring equal
// base names; then base names that are unique on both sides and at least 75 %
// alike; then the best of all the other pairs of at least 50 %, unless there
// are more than 1000 × 1000 of them.
//
// # Lines
//
// Lines are compared with Myers' algorithm in linear space, after lines that
// occur in only one of the files have been taken out. Two limits of the effort keep
// hopeless pairs cheap; they give a correct diff, only a longer one. Changes that could
// stand in several places, as a repeated line can, are moved to the place that reads best.
//
// Files with a NUL byte in the first 8000 bytes, or over 64 MiB,
// are binary: one line says that they differ, or, with Options.Binary, the
// whole contents of both sides travel as a `GIT binary patch`.
package diff
