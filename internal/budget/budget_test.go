package budget

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
)

func TestBudget(t *testing.T) {
	b := New(100)
	if !b.Holds(100) || b.Holds(101) {
		t.Error("it does not hold what it should")
	}
	release, err := b.Take(context.Background(), 60)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer stop()
	if _, err := b.Take(ctx, 50); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("more than there is: %v", err)
	}
	release()
	if release, err = b.Take(context.Background(), 100); err != nil {
		t.Error(err)
	}
	release()
	if release, err = b.Take(context.Background(), 1000); err != nil {
		t.Errorf("more than there is becomes all there is: %v", err)
	}
	release()
	var none *Budget
	if release, err := none.Take(context.Background(), 1<<40); err != nil || !none.Holds(1<<40) {
		t.Error(err)
	} else {
		release()
	}
}

// TestCharge: what grows ends where the budget does, and waits only before it has any.
func TestCharge(t *testing.T) {
	b := New(3 * step)
	one, two := b.Charge(), b.Charge()
	for range 20 {
		if err := one.Add(context.Background(), step/10); err != nil {
			t.Fatal(err)
		}
	}
	if err := two.Add(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	if err := one.Add(context.Background(), step); !errors.Is(err, errs.Quota) {
		t.Errorf("beyond the budget: %v", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer stop()
	if err := b.Charge().Add(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one who has nothing waits: %v", err)
	}
	one.Release()
	two.Release()
	if err := b.Charge().Add(context.Background(), 3*step); err != nil {
		t.Error(err)
	}
	var none *Budget
	if err := none.Charge().Add(context.Background(), 1<<40); err != nil {
		t.Error(err)
	}
	none.Charge().Release()
}

// TestTry: what is small waits for nobody, Try never waits, and who has found too little
// can have all when the others are done.
func TestTry(t *testing.T) {
	b := New(3 * step)
	other := b.Charge()
	if err := other.Add(context.Background(), 2*step); err != nil {
		t.Fatal(err)
	}
	c := b.Charge()
	if err := c.Try(2 * step); err != nil || c.Full() {
		t.Fatalf("what fits: %v", err)
	}
	if err := c.Try(step); !errors.Is(err, errs.Quota) || !c.Full() {
		t.Fatalf("beyond what others leave: %v", err)
	}
	if err := b.Charge().Try(step); err != nil {
		t.Errorf("a small one: %v", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer stop()
	if err := c.All(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("all, while another has some: %v", err)
	}
	other.Release()
	if err := c.All(context.Background()); err != nil || c.Full() {
		t.Fatal(err)
	}
	if err := c.Try(100 * step); err != nil {
		t.Errorf("beyond all: %v", err)
	}
	c.Release()
	if release, err := b.Take(context.Background(), 3*step); err != nil {
		t.Error(err)
	} else {
		release()
	}
	var none *Charge
	if err := none.Try(1 << 40); err != nil || none.Full() {
		t.Error(err)
	}
}
