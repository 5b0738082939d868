package actors

import (
	"encoding/json"
	"slices"

	"github.com/amberfs/amberfs/internal/process"
)

// kept are names of processes as a file has them.
type kept struct {
	Boot  string     `json:"boot"` // of the kernel: the ids and start times of processes are its
	Named []keptName `json:"named"`
}

type keptName struct {
	PID   int    `json:"pid"` // 0: the name of all processes that cannot be seen
	Start uint64 `json:"start"`
	View  uint32 `json:"view"`
	Name  string `json:"name"`
}

// Keep registers the names in b again for processes that still run. From then on it calls save
// when the names change, so that they outlive this process.
func (r *Registry) Keep(b []byte, save func([]byte) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.save = save
	var k kept
	if json.Unmarshal(b, &k) != nil {
		return
	}
	if k.Boot != process.Boot() {
		k.Named = slices.DeleteFunc(k.Named, func(n keptName) bool { return n.PID != 0 })
	}
	for _, n := range k.Named {
		if n.PID == 0 && Check(n.Name) == nil {
			r.whole[n.View], r.given[n.Name] = n.Name, true
		} else if st, err := process.StatOf(n.PID); err == nil && st.Start == n.Start && Check(n.Name) == nil {
			r.named[inView{n.PID, n.View}], r.given[n.Name] = named{n.Start, n.Name}, true
		}
	}
}

// keep saves the names. If it fails, they end with this process.
func (r *Registry) keep() {
	r.saving.Lock()
	defer r.saving.Unlock()
	k := kept{Boot: process.Boot()}
	r.mu.RLock()
	for p, n := range r.named {
		k.Named = append(k.Named, keptName{p.id, n.start, p.view, n.name})
	}
	for view, name := range r.whole {
		if v := r.within(view); v[0] == view { // else the fork has ended
			k.Named = append(k.Named, keptName{View: view, Name: name})
		}
	}
	r.mu.RUnlock()
	if b, err := json.Marshal(k); err == nil && r.save != nil {
		_ = r.save(b)
	}
}
