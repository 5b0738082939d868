package known

import (
	"encoding/json"

	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/handoff"
)

// CacheOf returns the cache of remote objects.
func CacheOf(k *Registry) *cache.Cache { return k.cache }

// OpenCache returns the cache that all daemons of the user share. If the user has no home directory, the cache is in
// the directory store.
func OpenCache(store string) *cache.Cache { return cache.New(cacheDir(store), cache.DefaultSize) }

// Areas returns copies of the areas of handoffs, by the URL of their remote.
func Areas(k *Registry) (all map[string]*handoff.Area, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	raw, err := json.Marshal(k.file.Handoffs)
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(raw, &all)
}

// SetArea records the area of handoffs on a remote. If the area is nil, it removes the record.
func SetArea(k *Registry, url string, a *handoff.Area) error {
	return k.changeFile(func(f *registryFile) error {
		if f.Handoffs == nil {
			f.Handoffs = map[string]*handoff.Area{}
		}
		f.Handoffs[url] = a
		if a == nil {
			delete(f.Handoffs, url)
		}

		return nil
	})
}
