package actors

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/internal/process"
)

const (
	// trustTime is how long the information about a process is used without checking that the process id still
	// belongs to that process.
	trustTime = 100 * time.Millisecond
	// maxRemembered is the largest number of entries of the maps infoByProcess, sessionNames, everRegistered and
	// gateways. maxNamedProcesses is the limit for registered processes of a workspace.
	maxRemembered     = 8192
	maxNamedProcesses = 1000
	// maxAncestors is the limit for the ancestors of a process that are searched.
	maxAncestors = 256
)

// A Registry finds the actor of a process: the name that was registered for the process or its nearest ancestor;
// else its login session, as COMMAND/SID of the session's leader; else uid:N.
//
// A gateway is a process that changes a fork for all programs in a virtual machine or in gVisor.
// Its actor is the name that the fork was made with, else the name of the fork.
//
// An unseen process is in another PID namespace, so that the daemon does not see its process id.
//
// A name that was registered in a workspace is valid in this workspace and in the forks in it.
type Registry struct {
	// viewAndAncestors returns the view of a workspace and the views of its ancestors, main last.
	viewAndAncestors func(view uint32) []uint32
	// forkName returns the name of a fork, "" for main.
	forkName func(view uint32) string

	mu             sync.RWMutex
	infoByProcess  map[processView]*processInfo
	processNames   map[processView]namedProcess // registered names
	unseenNames    map[uint32]string            // by view: registered name of unseen processes and gateways
	sessionNames   map[int]namedProcess         // by session id
	everRegistered map[string]bool              // all names that were registered
	gateways       map[uint32]string            // by view: command of the last gateway that changed the fork

	saveMu sync.Mutex
	save   func([]byte) error // see LoadNames
}

// A processView is a process or thread, and a workspace that it changes.
type processView struct {
	id   int
	view uint32
}

// A namedProcess is the registered name of a process, or the name of a session for its leader. The
// start time distinguishes processes with the same id.
type namedProcess struct {
	start uint64
	name  string
}

// A processInfo is the actor of a process, as findAndStoreActor found it.
type processInfo struct {
	start      uint64
	actor      string
	session    int          // the session in the actor's name, 0 for a registered name
	pathToName []int        // ids of the process and its ancestors, up to the process with the name
	checkedAt  atomic.Int64 // time of the last check that the id still belongs to the process, in ns since clockStart
}

// NewRegistry returns an empty Registry. The arguments are the fields of the same names.
func NewRegistry(viewAndAncestors func(view uint32) []uint32, forkName func(view uint32) string) *Registry {
	return &Registry{
		viewAndAncestors: viewAndAncestors, forkName: forkName, infoByProcess: make(map[processView]*processInfo), processNames: make(map[processView]namedProcess),
		unseenNames: make(map[uint32]string), sessionNames: make(map[int]namedProcess), everRegistered: make(map[string]bool),
		gateways: make(map[uint32]string),
	}
}

// clockStart is the start of the monotonic clock for processInfo.checkedAt.
var clockStart = time.Now()

// ActorOf returns the actor of a process or thread that changes a workspace. id is the id of the process or thread, 0
// for an unseen process.
func (r *Registry) ActorOf(id, uid, view uint32) string {
	if id == 0 {
		return r.unseenActor(uid, view)
	}
	key, now := processView{int(id), view}, int64(time.Since(clockStart))
	if k := r.recentInfo(key, now); k != nil {
		return k.actor
	}

	r.mu.RLock()
	k := r.infoByProcess[key]
	r.mu.RUnlock()
	st, err := process.StatOf(int(id))
	switch {
	case err != nil && k != nil:
		return k.actor // the process has just exited
	case err != nil:
		return r.unseenActor(uid, view)
	case k != nil && k.start == st.Start:
		k.checkedAt.Store(now)
		return k.actor
	}

	return r.findAndStoreActor(st, uid, view, now)
}

// unseenActor returns the actor of an unseen process.
func (r *Registry) unseenActor(uid, view uint32) string {
	views := r.viewAndAncestors(view)
	r.mu.RLock()
	defer r.mu.RUnlock()

	if name := r.unseenName(views); name != "" {
		return name
	}

	return fmt.Sprintf("uid:%d", uid)
}

// unseenName returns the name of all unseen processes in a workspace, "" if there is none. views are the views of
// the workspace and its ancestors. The caller holds mu.
func (r *Registry) unseenName(views []uint32) string {
	for _, v := range views {
		if name, ok := r.unseenNames[v]; ok {
			return name
		}
	}
	return ""
}

// recordGateway records a process that is a gateway, and returns its actor. For other processes it returns "".
func (r *Registry) recordGateway(p process.Stat, views []uint32) string {
	if !process.IsGateway(p) {
		return ""
	}
	forkName := r.forkName(views[0])
	r.mu.Lock()
	defer r.mu.Unlock()

	if len(r.gateways) >= maxRemembered {
		clear(r.gateways)
	}

	r.gateways[views[0]] = commandName(p.Command)
	if name := r.unseenName(views); name != "" {
		return name
	}
	if forkName == "" || r.registeredNameAbove(views[1:], forkName) != "" {
		return ""
	}

	return forkName
}

// GatewayCommand returns the command of the last gateway that changed a workspace, "" if there was none.
func (r *Registry) GatewayCommand(view uint32) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.gateways[view]
}

// findAndStoreActor searches the process of st, which may be a thread, and its ancestors for the actor. It stores the
// result for the process and for the ancestors that it has searched.
func (r *Registry) findAndStoreActor(st process.Stat, uid, view uint32, now int64) string {
	views := r.viewAndAncestors(view)
	var searched []process.Stat
	var found *processInfo
	var pathToName []int
	at := st
	leader := 0 // the index in searched of the process: 1 if st is one of its threads
	if id := process.ProcessOf(st.ID); id != st.ID {
		searched = append(searched, st)
		leader = 1
		var err error
		if at, err = process.StatOf(id); err != nil {
			return r.sessionName(st, uid)
		}
	}

	// Search the ancestors until there is information about one of them.
	for range maxAncestors {
		searched = append(searched, at)

		if found = r.findInfo(at, views, view, now); found != nil {
			pathToName = found.pathToName[1:]
			break
		}

		// Do not read /proc again for the parent of many short processes.
		if found = r.recentInfo(processView{at.Parent, view}, now); found != nil {
			pathToName = found.pathToName
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
		if name := r.recordGateway(searched[leader], views); name != "" {
			for _, p := range slices.Backward(searched[leader+1:]) { // the name is not valid for the ancestors of the leader
				pathToName = append([]int{p.ID}, pathToName...)
			}
			actor, session, searched = name, 0, searched[:leader+1]
		}
	}

	if actor == "" {
		actor = r.sessionName(st, uid)
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	if len(r.infoByProcess)+len(searched) > maxRemembered {
		clear(r.infoByProcess)
	}

	for _, p := range slices.Backward(searched) {
		pathToName = append([]int{p.ID}, pathToName...)
		if session != 0 && p.Session != session {
			continue // the ancestor is in another session, so it has another actor
		}

		k := &processInfo{start: p.Start, actor: actor, session: session, pathToName: pathToName}
		k.checkedAt.Store(now)
		r.infoByProcess[processView{p.ID, view}] = k
	}

	return actor
}

// findInfo returns the registered name of a process. If it has none, findInfo returns the information that was
// found earlier, or nil.
func (r *Registry) findInfo(p process.Stat, views []uint32, view uint32, now int64) *processInfo {
	r.mu.RLock()
	defer r.mu.RUnlock()

	for _, v := range views {
		if n, ok := r.processNames[processView{p.ID, v}]; ok && n.start == p.Start {
			return &processInfo{actor: n.name, pathToName: []int{p.ID}}
		}
	}

	if k := r.infoByProcess[processView{p.ID, view}]; k != nil && k.start == p.Start {
		k.checkedAt.Store(now)
		return k
	}

	return nil
}

// recentInfo returns the information about a process if it was checked less than trustTime ago, else nil.
func (r *Registry) recentInfo(key processView, now int64) *processInfo {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if k := r.infoByProcess[key]; k != nil && now-k.checkedAt.Load() < int64(trustTime) {
		return k
	}
	return nil
}

// sessionName returns the actor of a process by its login session: COMMAND/SID of the leader, or
// uid:N without a session.
func (r *Registry) sessionName(p process.Stat, uid uint32) string {
	if p.Session <= 0 {
		return fmt.Sprintf("uid:%d", uid)
	}
	leader, err := process.StatOf(p.Session)
	r.mu.Lock()
	defer r.mu.Unlock()

	n, ok := r.sessionNames[p.Session]
	if err != nil && ok {
		return n.name // the leader has exited, the session continues
	}
	if err != nil {
		return fmt.Sprintf("uid:%d", uid)
	}

	if !ok || n.start != leader.Start {
		if len(r.sessionNames) >= maxRemembered {
			clear(r.sessionNames)
		}

		n = namedProcess{leader.Start, fmt.Sprintf("%s/%d", commandName(leader.Command), p.Session)}
		r.sessionNames[p.Session] = n
	}

	return n.name
}

// commandName returns a command with only characters that are valid in an actor's name.
func commandName(command string) string {
	name := strings.Map(func(c rune) rune {
		if c < 128 && (namePattern().MatchString(string(c)) || c == '-' || c == '.') {
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

// Register registers the name of a process and its descendants in a workspace. If id is 0, it registers the name
// of all unseen processes.
//
// In a fork, Register fails with errs.Protected if the name, or a name above it, is registered in an ancestor of
// the fork. It does not fail if the present actor of the process equals that registered name, or is below it.
func (r *Registry) Register(id, uid, view uint32, name string) error {
	if err := r.register(id, uid, view, name); err != nil {
		return err
	}
	r.saveNames()
	return nil
}

// register does the work of Register, except that it does not save the names.
func (r *Registry) register(id, uid, view uint32, name string) error {
	if err := Check(name); err != nil {
		return err
	}

	present := r.ActorOf(id, uid, view)
	var start uint64
	if id != 0 {
		st, err := process.StatOf(int(id))
		if err != nil {
			return errs.New(errs.NotExist, "there is no process %d", id)
		}
		start = st.Start
	}

	views := r.viewAndAncestors(view)
	r.mu.Lock()
	defer r.mu.Unlock()

	if taken := r.registeredNameAbove(views[1:], name); taken != "" && !IsOrBelow(present, taken) {
		return errs.New(errs.Protected, "protected: actor %q is registered outside of the fork; choose another name", taken)
	}
	if len(r.everRegistered) >= maxRemembered {
		clear(r.everRegistered)
	}

	r.everRegistered[name] = true
	if id == 0 {
		r.unseenNames[view] = name
		return nil
	}

	// Remove the names of processes that have exited, and count the others.
	n := 0
	for k, old := range r.processNames {
		if st, err := process.StatOf(k.id); err != nil || st.Start != old.start {
			delete(r.processNames, k)
		} else if k.view == view {
			n++
		}
	}
	if n >= maxNamedProcesses {
		return errs.New(errs.Quota, "limit reached: %d processes of the workspace have names", n)
	}

	r.processNames[processView{int(id), view}] = namedProcess{start, name}
	for k, p := range r.infoByProcess {
		if slices.Contains(p.pathToName, int(id)) {
			delete(r.infoByProcess, k)
		}
	}

	return nil
}

var userNamePattern = pattern.New(`^(uid:[0-9]+|[^/]+/[0-9]+|unknown)$`)

// IsUserName reports whether a name is the name of a login session or a user. A registered name is not, even if it
// has the same form.
func (r *Registry) IsUserName(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return userNamePattern().MatchString(name) && !r.everRegistered[name]
}

// IsRegistered reports whether a name, or a name below it, is registered in a workspace for unseen processes, or
// for a process that may still run.
func (r *Registry) IsRegistered(name string, view uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()

	for k, n := range r.processNames {
		if k.view == view && IsOrBelow(n.name, name) {
			return true
		}
	}

	return IsOrBelow(r.unseenNames[view], name)
}

// registeredNameAbove returns a name that is registered in one of the views and equals the given name, or is above
// it. It returns "" if there is none. The caller holds mu.
func (r *Registry) registeredNameAbove(views []uint32, name string) string {
	for k, n := range r.processNames {
		if slices.Contains(views, k.view) && IsOrBelow(name, n.name) {
			return n.name
		}
	}
	return ""
}
