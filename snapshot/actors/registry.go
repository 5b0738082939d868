package actors

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/process"
)

const (
	// trusted is how long a process is taken for the one that had its id before.
	trusted = 100 * time.Millisecond
	// maxKnown bounds the processes that are remembered, and maxNamed those with a name of
	// their own in a workspace.
	maxKnown = 8192
	maxNamed = 1000
	// maxAncestors bounds the way up from a process.
	maxAncestors = 256
)

// A Registry finds the actors of processes: the name that was registered for a process or
// the nearest ancestor; else the login session, as COMMAND/SID of its leader; else uid:N.
//
// A gateway, which changes a fork for all programs of a virtual machine or of gVisor, has
// the name that the fork was made with, else the fork's own.
//
// A name that was registered in a workspace counts there and in the forks in it.
type Registry struct {
	// within returns the views of a workspace and of those that it is in, main last.
	within func(view uint32) []uint32
	// fork returns the name of a fork, "" for main.
	fork func(view uint32) string

	mu      sync.RWMutex
	known   map[inView]*known
	named   map[inView]named
	whole   map[uint32]string // of processes that cannot be seen, and of gateways
	leaders map[int]named     // of sessions
	given   map[string]bool   // names that were registered
	through map[uint32]string // the last gateway that changed a fork, as COMMAND

	saving sync.Mutex
	save   func([]byte) error // see Keep
}

// inView is a process, or a thread, that changes a workspace.
type inView struct {
	id   int
	view uint32
}

type named struct {
	start uint64
	name  string
}

// known is what was found out about a process.
type known struct {
	start   uint64
	actor   string
	session int          // that the actor is named after, 0 if the name was registered
	via     []int        // the process and its ancestors, up to the one with the name
	checked atomic.Int64 // ns of the monotonic clock
}

func NewRegistry(within func(view uint32) []uint32, fork func(view uint32) string) *Registry {
	return &Registry{
		within: within, fork: fork, known: make(map[inView]*known), named: make(map[inView]named),
		whole: make(map[uint32]string), leaders: make(map[int]named), given: make(map[string]bool),
		through: make(map[uint32]string),
	}
}

var began = time.Now()

// Of returns the actor of a process or thread, by its id, that changes a workspace. The id
// of a process in another namespace of processes, which cannot be seen, is 0.
func (r *Registry) Of(id, uid, view uint32) string {
	if id == 0 {
		return r.unseen(uid, view)
	}
	key, now := inView{int(id), view}, int64(time.Since(began))
	if k := r.fresh(key, now); k != nil {
		return k.actor
	}
	r.mu.RLock()
	k := r.known[key]
	r.mu.RUnlock()
	st, err := process.StatOf(int(id))
	switch {
	case err != nil && k != nil:
		return k.actor // it is about to exit
	case err != nil:
		return r.unseen(uid, view)
	case k != nil && k.start == st.Start:
		k.checked.Store(now)
		return k.actor
	}
	return r.find(st, uid, view, now)
}

func (r *Registry) unseen(uid, view uint32) string {
	scopes := r.within(view)
	r.mu.RLock()
	defer r.mu.RUnlock()
	if name := r.wholeOf(scopes); name != "" {
		return name
	}
	return fmt.Sprintf("uid:%d", uid)
}

// wholeOf returns the name of all processes that cannot be seen, or "". The lock is held.
func (r *Registry) wholeOf(scopes []uint32) string {
	for _, v := range scopes {
		if name, ok := r.whole[v]; ok {
			return name
		}
	}
	return ""
}

// gateway returns the name of a program that changes a fork for all in a sandbox, or "".
func (r *Registry) gateway(p process.Stat, scopes []uint32) string {
	if !process.IsGateway(p) {
		return ""
	}
	own := r.fork(scopes[0])
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.through) >= maxKnown {
		clear(r.through)
	}
	r.through[scopes[0]] = commandName(p.Command)
	if name := r.wholeOf(scopes); name != "" {
		return name
	}
	if own == "" || r.takenOutside(scopes[1:], own) != "" {
		return ""
	}
	return own
}

// Gateway returns the command of the last gateway that changed a workspace, "" if there was none.
func (r *Registry) Gateway(view uint32) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.through[view]
}

// find walks up from a process, or a thread of one, until the actor is known.
func (r *Registry) find(st process.Stat, uid, view uint32, now int64) string {
	scopes := r.within(view)
	var way []process.Stat
	var found *known
	var via []int
	at := st
	leader := 0 // the place in way of the process
	if id := process.Of(st.ID); id != st.ID {
		way = append(way, st)
		leader = 1
		var err error
		if at, err = process.StatOf(id); err != nil {
			return r.session(st, uid)
		}
	}
	for range maxAncestors {
		way = append(way, at)
		if found = r.knownAs(at, scopes, view, now); found != nil {
			via = found.via[1:]
			break
		}
		// The parent of many short processes is looked at now and then only.
		if found = r.fresh(inView{at.Parent, view}, now); found != nil {
			via = found.via
			break
		}
		if at.Parent <= 1 {
			break
		}
		parent, err := process.StatOf(at.Parent)
		if err != nil {
			break
		}
		at = parent
	}
	actor, session := "", st.Session
	if found != nil && (found.session == 0 || found.session == session) {
		actor, session = found.actor, found.session
	}
	if session != 0 {
		if name := r.gateway(way[leader], scopes); name != "" {
			for _, p := range slices.Backward(way[leader+1:]) { // its ancestors are others
				via = append([]int{p.ID}, via...)
			}
			actor, session, way = name, 0, way[:leader+1]
		}
	}
	if actor == "" {
		actor = r.session(st, uid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known)+len(way) > maxKnown {
		clear(r.known)
	}
	for _, p := range slices.Backward(way) {
		via = append([]int{p.ID}, via...)
		if session != 0 && p.Session != session {
			continue // it has an actor of its own
		}
		k := &known{start: p.Start, actor: actor, session: session, via: via}
		k.checked.Store(now)
		r.known[inView{p.ID, view}] = k
	}
	return actor
}

// knownAs returns what is known of a process that has a name or was met before, or nil.
func (r *Registry) knownAs(p process.Stat, scopes []uint32, view uint32, now int64) *known {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, v := range scopes {
		if n, ok := r.named[inView{p.ID, v}]; ok && n.start == p.Start {
			return &known{actor: n.name, via: []int{p.ID}}
		}
	}
	if k := r.known[inView{p.ID, view}]; k != nil && k.start == p.Start {
		k.checked.Store(now)
		return k
	}
	return nil
}

// fresh returns what is known of a process that was looked at just now, or nil.
func (r *Registry) fresh(key inView, now int64) *known {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if k := r.known[key]; k != nil && now-k.checked.Load() < int64(trusted) {
		return k
	}
	return nil
}

// session returns the name of a session's leader, with its id.
func (r *Registry) session(p process.Stat, uid uint32) string {
	if p.Session <= 0 {
		return fmt.Sprintf("uid:%d", uid)
	}
	leader, err := process.StatOf(p.Session)
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.leaders[p.Session]
	if err != nil && ok {
		return n.name // the session lives on without its leader
	}
	if err != nil {
		return fmt.Sprintf("uid:%d", uid)
	}
	if !ok || n.start != leader.Start {
		if len(r.leaders) >= maxKnown {
			clear(r.leaders)
		}
		n = named{leader.Start, fmt.Sprintf("%s/%d", commandName(leader.Command), p.Session)}
		r.leaders[p.Session] = n
	}
	return n.name
}

// commandName makes a part of an actor's name of a command.
func commandName(command string) string {
	name := strings.Map(func(c rune) rune {
		if c < 128 && (nameForm.MatchString(string(c)) || c == '-' || c == '.') {
			return c
		}
		return '_'
	}, command)
	name = strings.ReplaceAll(strings.TrimLeft(name, "-."), "..", "__")
	if name == "" {
		return "_"
	}
	return name
}

// Register names a process, and those that it and its descendants start, in a workspace. A
// process that cannot be seen has the id 0: the name is for all such then.
//
// A fork cannot take a name that was registered in a workspace that it is in, nor one below
// it, unless the process has that name already.
func (r *Registry) Register(id, uid, view uint32, name string) error {
	err := r.register(id, uid, view, name)
	if err == nil {
		r.keep()
	}
	return err
}

func (r *Registry) register(id, uid, view uint32, name string) error {
	if err := Check(name); err != nil {
		return err
	}
	present := r.Of(id, uid, view)
	var start uint64
	if id != 0 {
		st, err := process.StatOf(int(id))
		if err != nil {
			return errs.New(errs.NotExist, "there is no process %d", id)
		}
		start = st.Start
	}
	scopes := r.within(view)
	r.mu.Lock()
	defer r.mu.Unlock()
	if taken := r.takenOutside(scopes[1:], name); taken != "" && !Below(present, taken) {
		return errs.New(errs.Protected, "protected: actor %q is registered outside of the fork; choose another name", taken)
	}
	if len(r.given) >= maxKnown {
		clear(r.given)
	}
	r.given[name] = true
	if id == 0 {
		r.whole[view] = name
		return nil
	}
	n := 0
	for k, old := range r.named {
		if st, err := process.StatOf(k.id); err != nil || st.Start != old.start {
			delete(r.named, k)
		} else if k.view == view {
			n++
		}
	}
	if n >= maxNamed {
		return errs.New(errs.Quota, "limit reached: %d processes of the workspace have names", n)
	}
	r.named[inView{int(id), view}] = named{start, name}
	for k, p := range r.known {
		if slices.Contains(p.via, int(id)) {
			delete(r.known, k)
		}
	}
	return nil
}

var userForm = regexp.MustCompile(`^(uid:[0-9]+|[^/]+/[0-9]+|unknown)$`)

// IsUser reports whether a name is that of a login session or a user, and was not
// registered.
func (r *Registry) IsUser(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return userForm.MatchString(name) && !r.given[name]
}

// Registered reports whether a name, or one below it, was registered in a workspace for
// something that may still run.
func (r *Registry) Registered(by string, view uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for k, n := range r.named {
		if k.view == view && Below(n.name, by) {
			return true
		}
	}
	return Below(r.whole[view], by)
}

// takenOutside returns the name that a name is equal to or below, of those registered in
// some workspaces. The lock is held.
func (r *Registry) takenOutside(views []uint32, name string) string {
	for k, n := range r.named {
		if slices.Contains(views, k.view) && Below(name, n.name) {
			return n.name
		}
	}
	return ""
}
