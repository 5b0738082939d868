package backend

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
)

var ErrUnfit = errors.New("the service cannot store snapshots")

const probeSize = 1<<20 + 17

// Probe tries a service out, with keys of its own that it removes at the end. An
// error is a service that cannot be used at all, problem a sentence about conditions that
// do not hold.
func Probe(ctx context.Context, b Backend) (problem string, err error) {
	if err := probeBytes(ctx, b); err != nil {
		return "", err
	}
	if b.Collects() {
		return "a registry has no conditional writes: of two who push one name at once, the later one wins, and the other fails", nil
	}
	return probeConditions(ctx, b)
}

// probeBytes looks whether bytes and ranges come back as they were put.
func probeBytes(ctx context.Context, b Backend) error {
	data := make([]byte, probeSize)
	if _, err := rand.Read(data); err != nil {
		return fmt.Errorf("random bytes: %w", err)
	}
	key := Named(data).Key()
	if err := b.Put(ctx, key, data, PutOptions{}); err != nil {
		return err
	}
	if !b.Collects() {
		defer func() { _ = b.Delete(context.WithoutCancel(ctx), key) }() // some may write and not delete
	}
	for _, r := range [][2]int{{0, probeSize}, {probeSize / 3, 1000}, {probeSize - 5, 5}} {
		got, err := b.GetRange(ctx, key, int64(r[0]), int64(r[1]))
		if err != nil {
			return fmt.Errorf("%w: reading bytes %d to %d of what was written: %w", ErrUnfit, r[0], r[0]+r[1], err)
		}
		if !bytes.Equal(got, data[r[0]:r[0]+r[1]]) {
			return fmt.Errorf("%w: bytes %d to %d differ from what was written", ErrUnfit, r[0], r[0]+r[1])
		}
	}
	return nil
}

// probeConditions returns a sentence about a condition that does not hold. 8 writers want one key.
func probeConditions(ctx context.Context, b Backend) (problem string, err error) {
	key := "hold/probe-" + uuid.NewString()
	defer func() { _ = b.Delete(context.WithoutCancel(ctx), key) }()
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 8 {
		wg.Go(func() {
			// Where nothing may be removed a hold of nothing stays, which no collection minds.
			e := b.Put(ctx, key, fmt.Appendf(nil, `{"probe":%d}`, i), PutOptions{IfAbsent: true})
			mu.Lock()
			defer mu.Unlock()
			if e == nil {
				won++
			} else if !errors.Is(e, ErrChanged) {
				err = e
			}
		})
	}
	wg.Wait()
	if err == nil && won != 1 {
		problem = fmt.Sprintf("the service accepted %d of 8 writes on condition that the name is free: if two push one name at once, the later one wins, and the other fails", won)
	}
	return problem, err
}
