package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// DropRefs deletes those refs of the store's own repository at dir that drop names, and
// then the objects that no ref needs any more. No export may run meanwhile.
func DropRefs(ctx context.Context, dir string, drop func(ref string) bool) error {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil // nothing was exported
	}
	if err := initOwn(ctx, dir); err != nil {
		return err
	}
	repo, err := openRepository(ctx, dir, nothing)
	if err != nil {
		return err
	}
	out, err := repo.git(ctx, nil, "for-each-ref", "--format=%(refname)")
	if err != nil {
		return fmt.Errorf("listing the refs of %s: %w", dir, err)
	}
	var input strings.Builder
	for _, ref := range strings.Fields(out) {
		if drop(ref) {
			fmt.Fprintf(&input, "delete %s\n", ref)
		}
	}
	if input.Len() == 0 {
		return nil
	}
	if _, err := repo.ask(ctx, nil, strings.NewReader(input.String()), "update-ref", "--no-deref", "--stdin"); err != nil {
		return fmt.Errorf("deleting refs of %s: %w", dir, err)
	}
	if _, err := repo.git(ctx, nil, "gc", "--prune=now", "--quiet"); err != nil {
		return fmt.Errorf("freeing objects of %s: %w", dir, err)
	}
	return nil
}
