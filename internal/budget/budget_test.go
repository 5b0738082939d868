package budget

import (
	"context"
	"errors"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// waits fails the test unless take waits in the queue of the pool, and returns when its context ends.
func waits(t *testing.T, what string, p *pool, take func(ctx context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	before, ended := p.queued(), make(chan error, 1)
	go func() { ended <- take(ctx) }()
	await.True(t, what+" waits", func() bool { return p.queued() > before || len(ended) > 0 })
	stop()
	if err := await.Receive(t, what, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestBudget(t *testing.T) {
	b := New(100)
	if !b.Fits(75) || b.Fits(76) {
		t.Error("it does not hold what it should")
	}
	release, err := b.Take(context.Background(), 60)
	must.OK(t, err)
	waits(t, "more than there is", b.pool, func(ctx context.Context) error { _, err := b.Take(ctx, 50); return err })
	release()
	if release, err = b.Take(context.Background(), 1000); err != nil {
		t.Fatalf("more than there is becomes all that a tenant can have: %v", err)
	}
	release()
	var none *Budget
	if release, err := none.ForTenant(1).Take(context.Background(), 1<<40); err != nil || !none.Fits(1<<40) {
		t.Error(err)
	} else {
		release()
	}
}

// TestTenants: a tenant gets its part at once, even if another tenant has all that one tenant can have. Of the
// waiting requests, the request of the tenant with the least memory is granted first.
func TestTenants(t *testing.T) {
	b := New(64)
	greedy, other := b.ForTenant("greedy"), b.ForTenant("other")
	release, err := greedy.Take(context.Background(), 48)
	must.OK(t, err)
	granted := make(chan string, 2)
	wait := func(b *Budget, bytes int64, waiting int) {
		go func() {
			r, err := b.Take(context.Background(), bytes)
			if err != nil {
				t.Error(err)
			}
			granted <- b.tenant.(string)
			r()
		}()
		await.True(t, "it waits", func() bool { return b.pool.queued() >= waiting })
	}
	if r, err := other.Take(context.Background(), 12); err != nil {
		t.Errorf("the other's part: %v", err)
	} else {
		r()
	}
	wait(greedy, 48, 1)
	wait(other, 48, 2)
	release()
	if first := <-granted; first != "other" {
		t.Errorf("%s was first", first)
	}
	<-granted
	if b.pool.taken != 0 || len(b.pool.takenBy) != 0 {
		t.Errorf("%d bytes are taken by %d", b.pool.taken, len(b.pool.takenBy))
	}
}

func (p *pool) queued() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

// TestCharge: a charge can grow up to the tenant's part. It waits only if it has no memory yet.
func TestCharge(t *testing.T) {
	b := New(8 * chargeStep)
	one, two := b.NewCharge(), b.NewCharge()
	for range 50 {
		must.OK(t, one.Add(context.Background(), chargeStep/10))
	}
	must.OK(t, two.Add(context.Background(), 1))
	if err := one.Add(context.Background(), chargeStep); !errors.Is(err, errs.Quota) {
		t.Errorf("beyond the tenant's part: %v", err)
	}
	waits(t, "one that has nothing", b.pool, func(ctx context.Context) error { return b.NewCharge().Add(ctx, 1) })
	if err := b.ForTenant("other").NewCharge().Add(context.Background(), 1); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	one.Release()
	two.Release()
	must.OK(t, b.NewCharge().Add(context.Background(), 5*chargeStep))
	var none *Budget
	must.OK(t, none.NewCharge().Add(context.Background(), 1<<40))
	none.NewCharge().Release()
}

// TestTry: TryAdd does not wait, and the first bytes of a charge need no reservation. After TryAdd has failed,
// RemoveLimit waits until the other charges of the tenant are released. Of the charges of other tenants, it waits
// only for one without bounds.
func TestTry(t *testing.T) {
	b := New(8 * chargeStep)
	mine, others := b.ForTenant("mine"), b.ForTenant("others").NewCharge()
	must.OK(t, others.Add(context.Background(), 4*chargeStep))
	second := mine.NewCharge()
	must.OK(t, second.Add(context.Background(), chargeStep))
	c := mine.NewCharge()
	must.OK(t, c.TryAdd(2*chargeStep))
	if err := c.TryAdd(3 * chargeStep); !errors.Is(err, errs.Quota) || !c.TryFailed() {
		t.Fatalf("beyond what others leave: %v", err)
	}
	must.OK(t, mine.NewCharge().TryAdd(chargeStep))
	waits(t, "all, while another of the tenant has some", b.pool, c.RemoveLimit)
	second.Release()
	if err := c.RemoveLimit(context.Background()); err != nil || c.TryFailed() {
		t.Fatal(err)
	}
	must.OK(t, c.TryAdd(100*chargeStep))
	waits(t, "two without bounds", b.pool, others.RemoveLimit)
	c.Release()
	must.OK(t, others.RemoveLimit(context.Background()))
	others.Release()
	var none *Charge
	if err := none.TryAdd(1 << 40); err != nil || none.TryFailed() {
		t.Error(err)
	}
}
