package errs_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
)

func TestNewHasTheSentenceAndTheKind(t *testing.T) {
	err := fmt.Errorf("open store: %w", errs.New(errs.Damaged, "pack 3 is cut short: %w", io.ErrUnexpectedEOF))
	if got, want := err.Error(), "open store: pack 3 is cut short: unexpected EOF"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	for _, target := range []error{errs.Damaged, io.ErrUnexpectedEOF} {
		if !errors.Is(err, target) {
			t.Errorf("it is not %q", target)
		}
	}
	if errors.Is(err, errs.NotExist) {
		t.Error("it is of a kind that nobody gave it")
	}
}

// TestOfGivesTheOutermostKind: if an object names another one that does not exist, the error is of the kind Damaged,
// and not NotExist.
func TestOfGivesTheOutermostKind(t *testing.T) {
	inner := errs.New(errs.NotExist, "no object")
	for _, err := range []error{
		errs.New(errs.Damaged, "directory 7: %w", inner),
		fmt.Errorf("%w: %w", errs.Damaged, inner),
	} {
		if got := errs.KindOf(fmt.Errorf("read: %w", err)); got != errs.Damaged {
			t.Errorf("kind %q, want %q", got, errs.Damaged)
		}
	}
	if got := errs.KindOf(io.EOF); got != "" {
		t.Errorf("kind %q of an error without one", got)
	}
}
