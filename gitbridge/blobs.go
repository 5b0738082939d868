package gitbridge

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

const (
	// maxBufferedBytes is the largest size of a file that is read into memory as a whole.
	maxBufferedBytes = 1 << 20
	// maxExportedBytes is the largest size of an exported file. Only sparse files are larger, and git would
	// store their holes as zeros.
	maxExportedBytes = 1 << 40
	// maxConvertedBytes is the largest size of a file that git converts for the store's own repository. For a
	// conversion, git has several copies of the file in memory.
	maxConvertedBytes = 16 << 20
)

// exportFiles puts regular files and symbolic links of one directory into the commit.
func (x *exporter) exportFiles(items []item) error {
	conversions, err := x.conversions(items)
	if err != nil {
		return err
	}

	fetched := 0

	for i, it := range items {
		if err := x.ctx.Err(); err != nil {
			return err
		}

		if i == fetched {
			if fetched, err = stream.Prefetch(x.options.Prefetch, x.options.Source, i, len(items), func(i int) *tree.Inode { return items[i].node }); err != nil {
				return err
			}
		}

		x.result.Files++
		x.noteLosses(it)
		if err := x.exportFile(it, conversions[i]); err != nil {
			return err
		}
		if x.options.Progress != nil && x.result.Files%256 == 0 {
			x.options.Progress(stream.Progress{Files: int64(x.result.Files), Bytes: x.writer.blobBytes})
		}
	}

	return nil
}

// conversions returns, for each file, the conversion that the attributes of the file ask for.
func (x *exporter) conversions(items []item) ([]conversion, error) {
	conversions := make([]conversion, len(items))
	values := make([]string, len(attributeNames))
	err := x.worktree.ask(x.ctx, attributeArgs, pathsOf(items), 3*len(values), func(i, field int, text string) {
		if field%3 == 2 { // the value, after the path and the name of the attribute
			values[field/3] = text
			conversions[i] = conversionOf(values, x.settings.autoCRLF)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("asking git for attributes: %w", err)
	}

	return conversions, nil
}

// exportFile puts one file into the commit. If the attributes ask for a conversion, it passes the file to
// queueConversion, after which git converts it: a large file always, a small file only if the conversion
// would change its bytes.
func (x *exporter) exportFile(it item, conv conversion) error {
	if it.node.IsSymlink() {
		return x.send(it, modeSymlink, strings.NewReader(it.node.Target), int64(len(it.node.Target)))
	}
	mode, size := uint32(modeFile), it.node.Content.Size()
	if it.node.Mode&0o100 != 0 && !x.settings.noExec {
		mode = modeExec
	}

	if size > maxExportedBytes {
		x.result.Files--
		x.writer.remove(it.path)
		x.leaveOut(it.path, fmt.Sprintf("git has no holes: it would store all %d bytes", size))
		return nil
	}

	if x.options.Create && conv != unconverted && size > maxConvertedBytes {
		x.result.Reduced = append(x.result.Reduced, stream.Omission{Path: it.path, Reason: fmt.Sprintf("stored without conversion, as it has more than %d MiB", maxConvertedBytes>>20)})
		conv = unconverted
	}
	if conv == converted || size > maxBufferedBytes && conv == lineEnds {
		return x.queueConversion(it, mode)
	}

	content := it.node.Content.Reader(x.options.Source.Files)
	if size > maxBufferedBytes {
		return x.send(it, mode, content, size)
	}

	data := make([]byte, size)
	if _, err := io.ReadFull(content, data); err != nil && size > 0 {
		return fmt.Errorf("reading %q: %w", it.path, err)
	}
	if conv == lineEnds && bytes.Contains(data, []byte("\r\n")) {
		return x.queueConversion(it, mode)
	}

	return x.send(it, mode, bytes.NewReader(data), size)
}

func (x *exporter) send(it item, mode uint32, r io.Reader, size int64) error {
	mark, err := x.writer.blob(r, size)
	if err != nil {
		return fmt.Errorf("sending %q to git: %w", it.path, err)
	}
	x.writer.addEntry(mode, mark, it.path)
	return nil
}

// queueConversion writes a file to the worktree, and adds it to x.filtered. These are the files that git
// converts at the end (convert).
func (x *exporter) queueConversion(it item, mode uint32) error {
	if err := x.worktree.write(it.path, it.node.Content.Reader(x.options.Source.Files)); err != nil {
		return err
	}
	x.filtered = append(x.filtered, entry{mode: mode, name: it.path})
	return nil
}

// convert calls git, which converts the filtered files as the attributes in the worktree define, and stores them.
func (x *exporter) convert() error {
	if len(x.filtered) == 0 {
		return nil
	}
	ids, err := x.storeFiles(x.filtered)
	if err != nil {
		return fmt.Errorf("converting files as .gitattributes defines: %w", err)
	}
	for i, f := range x.filtered {
		x.writer.addEntry(f.mode, ids[i], f.name)
	}

	x.writer.blobCount += len(ids)

	return nil
}

// storeFiles stores files of the worktree, as git converts them, and returns their ids. A file that git cannot
// convert, such as a file that does not have the encoding of its attributes, is stored without conversion and
// reported in Reduced. `git add` would fail for such a file.
func (x *exporter) storeFiles(files []entry, options ...string) ([]string, error) {
	var names strings.Builder
	for _, f := range files {
		names.WriteString(gitquote.Name(f.name))
		names.WriteByte('\n')
	}

	out, err := runGit(x.ctx, x.worktree.workTree(), slices.Concat(x.writer.env, x.worktree.env, userLocale()), strings.NewReader(names.String()),
		slices.Concat(x.worktree.config, []string{"hash-object", "-w", "--stdin-paths"}, options)...)
	isRefused := gitdir.ExitCode(err) > 0 && x.ctx.Err() == nil
	switch {
	case isRefused && len(files) > 1: // git has stopped at one of them
		half := len(files) / 2
		first, err := x.storeFiles(files[:half])
		if err != nil {
			return nil, err
		}
		second, err := x.storeFiles(files[half:])
		return append(first, second...), err
	case isRefused && len(options) == 0:
		x.result.Reduced = append(x.result.Reduced, stream.Omission{Path: files[0].name, Reason: "stored without conversion: " + err.Error()})
		return x.storeFiles(files, "--no-filters")
	case err != nil:
		return nil, err
	}

	ids := strings.Fields(string(out))
	if len(ids) != len(files) {
		return nil, fmt.Errorf("%d answers for %d files", len(ids), len(files))
	}

	return ids, nil
}

// noteLosses reports in Result.Reduced which attributes of a file a commit cannot represent.
func (x *exporter) noteLosses(it item) {
	var missing []string
	if it.node.IsRegular() {
		switch perm := it.node.Mode & 0o7777; {
		case perm&0o7000 != 0:
			missing = append(missing, fmt.Sprintf("mode %04o", perm))
		case perm != 0o644 && perm != 0o755 && perm != 0o664 && perm != 0o775:
			missing = append(missing, fmt.Sprintf("permissions %04o", perm))
		}
	}

	if it.node.Nlink > 1 {
		missing = append(missing, "hard link")
	}
	for _, x := range it.node.Xattrs {
		missing = append(missing, "attribute "+x.Name)
	}
	if len(missing) > 0 {
		x.result.Reduced = append(x.result.Reduced, stream.Omission{Path: it.path, Reason: strings.Join(missing, ", ")})
	}
}
