// Package diff compares two states of a tree, and writes the differences in the formats of git. It
// also merges texts by lines.
//
// Imported by: all of cmd, service.
//
// Three kinds of output are made from a list of changed files ([Files]): [Write] writes a unified diff that
// `git apply` accepts, forwards and backwards (-R); [NameStatus] writes a line with a letter and a path for each file;
// [Stat] writes the histogram of `git diff --stat`.
//
// # What is compared
//
// tree.Diff walks both states together and skips shared subtrees, so the cost grows with the number of
// differences and not with the size of the trees. This package uses the differences that git records:
// regular files with their contents and the owner's execute bit, and symbolic links. Directories are
// only prefixes of names. Times, owners, other permission bits, extended attributes, hard links, FIFOs,
// sockets and devices are ignored.
//
// Paths with a component that git takes for its own directory (".git" in any
// case) are left out of Write and Stat: git apply refuses a whole patch because
// of one such path. NameStatus lists them, as `git diff --no-index` does.
//
// # Renames
//
// A deleted file and an added one become a rename by the rules of git's diffcore-rename, so that the
// letters and the similarities equal the output of `git diff -M`. The pairs are chosen in this order:
//
//  1. files with equal contents, preferably with equal base names;
//  2. files with a base name that is unique on both sides, if they are at least 75 % similar;
//  3. the other pairs that are at least 50 % similar, the most similar first. This step is left out if
//     there are more than 1000 × 1000 pairs.
//
// # Lines
//
// Lines are compared with Myers' algorithm in linear space, after lines that occur in only one of the
// files were removed. Two limits bound the time for very different files; beyond them the diff is
// correct but longer than necessary. A change that can be placed at several lines, such as the
// insertion of a repeated line, is moved to the place at which it is easiest to read.
//
// Files with a NUL byte in the first 8000 bytes, or over 64 MiB, are binary: one line reports that
// they differ or, with Options.Binary, a `GIT binary patch` has the contents of both sides.
package diff
