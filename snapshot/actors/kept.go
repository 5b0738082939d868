package actors

import (
	"encoding/json"
	"slices"

	"github.com/amberfs/amberfs/internal/process"
)

// savedNames is the JSON document with the registered names of processes.
type savedNames struct {
	Boot  string      `json:"boot"` // id of the boot: process ids and start times are valid only until a reboot
	Names []savedName `json:"named"`
}

type savedName struct {
	PID   int    `json:"pid"` // 0: the name is for all processes that this one cannot see, such as processes in another pid namespace
	Start uint64 `json:"start"`
	View  uint32 `json:"view"`
	Name  string `json:"name"`
}

// LoadNames registers the names in b for processes that still run. An earlier Registry passed b to its function
// save. This Registry calls save whenever the names change, so that the next daemon can load them.
func (r *Registry) LoadNames(b []byte, save func([]byte) error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.save = save
	var k savedNames
	if json.Unmarshal(b, &k) != nil {
		return
	}
	if k.Boot != process.BootID() {
		k.Names = slices.DeleteFunc(k.Names, func(n savedName) bool { return n.PID != 0 })
	}

	for _, n := range k.Names {
		if n.PID == 0 && Check(n.Name) == nil {
			r.unseenNames[n.View], r.everRegistered[n.Name] = n.Name, true
		} else if st, err := process.StatOf(n.PID); err == nil && st.Start == n.Start && Check(n.Name) == nil {
			r.processNames[processView{n.PID, n.View}], r.everRegistered[n.Name] = namedProcess{n.Start, n.Name}, true
		}
	}
}

// saveNames calls save with the registered names. It ignores an error of save, after which the next daemon has no
// names.
func (r *Registry) saveNames() {
	r.saveMu.Lock()
	defer r.saveMu.Unlock()

	k := savedNames{Boot: process.BootID()}
	r.mu.RLock()
	for p, n := range r.processNames {
		k.Names = append(k.Names, savedName{p.id, n.start, p.view, n.name})
	}

	for view, name := range r.unseenNames {
		if v := r.viewAndAncestors(view); v[0] == view { // skip a fork that has ended
			k.Names = append(k.Names, savedName{View: view, Name: name})
		}
	}

	r.mu.RUnlock()
	if b, err := json.Marshal(k); err == nil && r.save != nil {
		_ = r.save(b)
	}
}
