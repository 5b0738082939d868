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

// ErrWrongBytes: Probe read other bytes than it had written.
var ErrWrongBytes = errors.New("the service cannot store snapshots")

const probeSize = 1<<20 + 17 // bytes

// Probe writes, reads and deletes some keys. It returns an error if the service cannot be used. If only conditional
// writes do not work, problem is a sentence for the user, otherwise "".
func Probe(ctx context.Context, b Backend) (problem string, err error) {
	if err := probeBytes(ctx, b); err != nil {
		return "", err
	}
	if b.IsRegistry() {
		return "a registry has no conditional writes: of two who push one name at once, the later one wins, and the other fails", nil
	}
	return probeConditions(ctx, b)
}

// probeBytes writes a value, and reads it as a whole and in ranges. It fails if the bytes differ from the written
// ones.
func probeBytes(ctx context.Context, b Backend) error {
	data := make([]byte, probeSize)
	if _, err := rand.Read(data); err != nil {
		return fmt.Errorf("random bytes: %w", err)
	}

	key := ObjectOf(data).Key()
	if err := b.Put(ctx, key, data, PutOptions{}); err != nil {
		return err
	}
	if !b.IsRegistry() {
		defer func() { _ = b.Delete(context.WithoutCancel(ctx), key) }() // fails if the user has no right to delete
	}

	for _, r := range [][2]int{{0, probeSize}, {probeSize / 3, 1000}, {probeSize - 5, 5}} {
		got, err := b.GetRange(ctx, key, int64(r[0]), int64(r[1]))
		if err != nil {
			return fmt.Errorf("%w: reading bytes %d to %d of what was written: %w", ErrWrongBytes, r[0], r[0]+r[1], err)
		}
		if !bytes.Equal(got, data[r[0]:r[0]+r[1]]) {
			return fmt.Errorf("%w: bytes %d to %d differ from what was written", ErrWrongBytes, r[0], r[0]+r[1])
		}
	}

	return nil
}

// probeConditions starts 8 writes of one key at once, each on condition that the key does not exist. problem is as in
// Probe.
func probeConditions(ctx context.Context, b Backend) (problem string, err error) {
	key := "hold/probe-" + uuid.NewString()
	defer func() { _ = b.Delete(context.WithoutCancel(ctx), key) }()

	var wg sync.WaitGroup
	var mu sync.Mutex
	successes := 0

	for i := range 8 {
		wg.Go(func() {
			// A key that cannot be deleted stays as a hold without objects, which does no harm.
			e := b.Put(ctx, key, fmt.Appendf(nil, `{"probe":%d}`, i), PutOptions{IfAbsent: true})
			mu.Lock()
			defer mu.Unlock()

			if e == nil {
				successes++
			} else if !errors.Is(e, ErrChanged) {
				err = e
			}
		})
	}

	wg.Wait()

	if err != nil {
		return "", err
	}
	if successes != 1 {
		problem = fmt.Sprintf("the service accepted %d of 8 writes on condition that the name is free: if two push one name at once, the later one wins, and the other fails", successes)
	}

	return problem, nil
}
