package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/handoff"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// Handoff has the arguments of the operation handoff.
type Handoff struct {
	Remote  string `json:"remote,omitempty" jsonschema:"the remote's name or URL; if empty, that of the last handoff, of the policy, or the only one"`
	Fork    string `json:"fork,omitempty" jsonschema:"a fork that is handed off; if empty, a new one of the present state"`
	Expires string `json:"expires,omitempty" jsonschema:"the line expires after this time: 30m, 24h, 7d; 24h if empty"`
	Times   int    `json:"times,omitempty" jsonschema:"how often the line works; 1 if 0"`
	Session string `json:"session,omitempty" jsonschema:"id of the agent's session"`
	// Transcript is the transcript of the session, compressed by gzip.
	Transcript []byte `json:"transcript,omitempty" jsonschema:"the transcript of the session, compressed by gzip"`
	DryRun     bool   `json:"dry_run,omitempty" jsonschema:"send nothing, and return what would be sent"`
}

// A HandedOff is the result of Handoff.
type HandedOff struct {
	ID      string    `json:"id,omitempty"`
	Line    string    `json:"line,omitempty" jsonschema:"the command for the other machine, which a PATH follows"`
	Fork    string    `json:"fork,omitempty" jsonschema:"the fork that has what was handed off"`
	Remote  string    `json:"remote" jsonschema:"the URL of the remote"`
	Files   int64     `json:"files"`
	Bytes   int64     `json:"bytes"`
	Sent    int64     `json:"sent" jsonschema:"bytes that the remote did not have"`
	LeftOut []string  `json:"left_out" jsonschema:"paths that the policy leaves out"`
	Session string    `json:"session,omitempty"`
	Expires time.Time `json:"expires"`
	Times   int       `json:"times"`
	DryRun  bool      `json:"dry_run,omitempty"`
}

// HandoffBack has the arguments of the operation handoff-back.
type HandoffBack struct {
	ID    string `json:"id,omitempty" jsonschema:"the handoff; if empty, the newest that came back"`
	Fetch bool   `json:"fetch,omitempty" jsonschema:"only bring what came back into the fork"`
	Done  bool   `json:"done,omitempty" jsonschema:"only record that what came back was merged"`
	snapshot.MergeRules
	Merge bool `json:"merge,omitempty" jsonschema:"merge a branch of git that is checked out and moved on both sides"`
}

// defaultLineLife is the default time after which a line expires.
const defaultLineLife = "24h"

// handoffURL returns the URL of the remote with a name. If name is empty, it returns the URL of the remote of
// the last handoff or, if there was no handoff, of the default remote.
func (rs *remotes) handoffURL(r *Request, name string, areas map[string]*handoff.Area) (string, error) {
	switch {
	case name == "" && len(areas) > 0:
		name = slices.MaxFunc(slices.Collect(maps.Keys(areas)), func(a, b string) int { return areas[a].LastUsed.Compare(areas[b].LastUsed) })
	case name == "":
		var err error
		if name, err = rs.defaultRemote(r); errs.ScriptKind(err) == errs.NotExist {
			return "", errs.Fail(errs.NotExist, "no remote is known here").WithHint("name one: `amberfs handoff s3://BUCKET/PREFIX`, or oci:// or file://")
		} else if err != nil {
			return "", err
		}
	}
	target, err := rs.remote(r, name)
	if err != nil {
		return "", err
	}

	return target.URL(), nil
}

// handoff sends the present state of the workspace to a remote, and returns the line with which another machine
// receives it. A fork keeps the state. When the other machine sends a snapshot back, handoffBack restores it in this
// fork, and merges the fork.
func (rs *remotes) handoff(ctx context.Context, r *Request, a Handoff) (result HandedOff, err error) {
	lineLife, err := policy.ParseTTL(cmp.Or(a.Expires, defaultLineLife))
	if err != nil {
		return result, err
	}
	if a.Times < 0 || a.Times > 100 {
		return result, errs.Fail(errs.Invalid, "a line works 1 to 100 times, not %d", a.Times)
	}

	rs.handoffLock.Lock()
	defer rs.handoffLock.Unlock()

	areas, err := known.Areas(rs.registry)
	if err != nil {
		return result, err
	}
	url, err := rs.handoffURL(r, a.Remote, areas)
	if err != nil {
		return result, err
	}

	area := areas[url]
	if area == nil {
		if area, err = handoff.NewArea(url); err != nil {
			return result, err
		}
	}

	id := handoff.NewID()
	result = HandedOff{Remote: url, Session: a.Session, Expires: time.Now().Add(lineLife), Times: max(a.Times, 1), DryRun: a.DryRun, Fork: a.Fork}
	if result.LeftOut, err = r.Workspace.Remotes().UnsentPaths(ctx); err != nil {
		return result, err
	}
	if a.Fork == "" {
		result.Fork = "handoff-" + id
		name := result.Fork
		o := snapshot.ForkOptions{Name: name, Hide: r.main.Policy().Forget, Caller: r.Caller}
		if _, err := r.Workspace.Forks().New(o); err != nil {
			return result, err
		}
		defer func() {
			if err != nil || a.DryRun {
				err = errors.Join(err, r.Workspace.Forks().Discard(name, r.Caller))
			}
		}()
	}

	terms := handoff.Terms{Expires: result.Expires, MaxClaims: result.Times, Session: a.Session, Transcript: a.Transcript}
	if err := rs.sendHandoff(ctx, r, area, id, terms, &result); err != nil {
		return result, explainRemoteError(url, err)
	}
	if a.DryRun {
		result.Fork = ""
		return result, nil
	}

	result.ID, result.Line = id, "amberfs handoff '"+area.Handoffs[len(area.Handoffs)-1].String()+"'"
	if err := area.Sweep(ctx, known.CacheOf(rs.registry), false); err != nil {
		r.log.Warn("handoff: what has expired was not removed", "remote", url, "err", err)
	}

	return result, known.SetArea(rs.registry, url, area)
}

// sendHandoff takes a snapshot of the fork result.Fork, and sends it to area. It sets the sizes in result.
func (rs *remotes) sendHandoff(ctx context.Context, r *Request, area *handoff.Area, id string, terms handoff.Terms, result *HandedOff) error {
	fork, err := r.Workspace.Forks().Named(result.Fork)
	if err != nil {
		return err
	}
	made, err := fork.Capture(snapshot.CaptureOptions{Name: "handoff-" + id, Message: "handed off", Caller: r.Caller})
	if err != nil {
		return err
	}

	r.progress(Progress{What: "preparing"})
	x, err := fork.Remotes().PreparePush(ctx, made.Name)
	if err != nil {
		return err
	}
	defer x.Release()

	p := remote.PushOptions{
		Ref: newRef(x.Info, id, x.ActorSets), Mark: markFunc(x.State, r.source, x.ActorSets), ReadStored: rs.readStored,
		Progress: partProgress(r, "handing off"),
	}

	result.Files, result.Bytes = x.Info.Files, x.Info.Bytes
	if result.DryRun {
		result.Sent, err = area.MissingBytes(ctx, known.CacheOf(rs.registry), p)
		return err
	}

	if err := area.AddHandoff(id, result.Fork, terms); err != nil {
		return err
	}
	if err := known.SetArea(rs.registry, result.Remote, area); err != nil {
		return err
	}
	pushed, err := area.Send(ctx, known.CacheOf(rs.registry), p, terms)
	if err != nil {
		return err
	}
	result.Sent = pushed.Bytes

	return nil
}

// A HandedBack is the result of HandoffBack: the merge of the returned snapshot.
type HandedBack struct {
	ID string `json:"id"`
	snapshot.PromoteResult
}

// handoffBack merges the changes of another machine. It pulls the snapshot that the machine sent back, restores it in
// the fork of the handoff, and merges the fork. If a.Fetch is set, it does not merge.
func (rs *remotes) handoffBack(ctx context.Context, r *Request, a HandoffBack) (HandedBack, error) {
	rs.handoffLock.Lock()
	defer rs.handoffLock.Unlock()

	areas, err := known.Areas(rs.registry)
	if err != nil {
		return HandedBack{}, err
	}

	if a.Done {
		return HandedBack{ID: a.ID}, rs.setMerged(a.ID, areas)
	}
	url, sent, err := rs.fetchReturned(ctx, r, a, areas)
	if err != nil {
		return HandedBack{}, explainTransferError(cmp.Or(url, "of the handoff"), err)
	}
	if err := known.SetArea(rs.registry, url, areas[url]); err != nil {
		return HandedBack{}, err
	}

	done := HandedBack{ID: sent.ID}
	if done.Fork = sent.Fork; a.Fetch {
		done.Paths = []graft.PathChange{}
		return done, nil
	}

	done.PromoteResult, err = rs.merge(ctx, r, snapshot.MergeOptions{Fork: sent.Fork, MergeRules: a.MergeRules, MergeBranch: a.Merge})
	if err != nil || a.DryRun {
		return done, err
	}

	return done, rs.setMerged(sent.ID, areas)
}

// setMerged records that the returned snapshot of a handoff was merged.
func (rs *remotes) setMerged(id string, areas map[string]*handoff.Area) error {
	for url, area := range areas {
		for i := range area.Handoffs {
			if area.Handoffs[i].ID == id {
				area.Handoffs[i].Merged = true
				return known.SetArea(rs.registry, url, area)
			}
		}
	}
	return errs.Fail(errs.NotExist, "no such handoff: %q", id)
}

// fetchReturned finds a handoff with a returned snapshot, and restores this snapshot in the handoff's fork, unless it
// is restored already. It returns the URL of the remote and the handoff's record. The record is an element of
// areas[url]. fetchReturned may have changed it, so the caller stores areas[url].
func (rs *remotes) fetchReturned(ctx context.Context, r *Request, a HandoffBack, areas map[string]*handoff.Area) (url string, sent *handoff.SentHandoff, err error) {
	errNothing := errs.Fail(errs.NotExist, "nothing came back").WithHint("on the other machine, run `amberfs handoff --back` in the directory")
	if len(areas) == 0 {
		return "", nil, errNothing.WithHint("nothing was handed off from here")
	}

	for url, area := range areas {
		for i := len(area.Handoffs) - 1; i >= 0; i-- {
			sent := &area.Handoffs[i]
			if !sent.Uploaded || a.ID != "" && a.ID != sent.ID {
				continue
			}

			areaRemote, ref, err := area.FindReturned(ctx, known.CacheOf(rs.registry), sent.ID)
			if errors.Is(err, backend.ErrNotFound) {
				continue
			}
			if err != nil {
				return url, nil, err
			}
			defer areaRemote.Close()

			switch {
			case sent.Merged && (a.ID != "" || ref.ID != sent.ReturnedID):
				return url, nil, errs.Fail(errs.Exist, "the handoff %s was merged already", sent.ID).
					WithHint("to bring further work, hand it off there with `amberfs handoff`")
			case sent.Merged:
				continue
			case sent.ReturnedID == ref.ID:
				return url, sent, nil
			}

			return url, sent, rs.restoreReturned(ctx, r, areaRemote, ref, sent)
		}
	}

	return "", nil, errNothing
}

// restoreReturned pulls the returned snapshot ref from an area into the fork of a handoff, and restores it there.
func (rs *remotes) restoreReturned(ctx context.Context, r *Request, area *remote.Remote, ref *remote.Ref, sent *handoff.SentHandoff) error {
	fork, err := r.Workspace.Forks().Named(sent.Fork)
	if err != nil {
		return err
	}

	in := *r
	in.Workspace = fork
	got, err := rs.pullOne(ctx, &in, Pull{As: fmt.Sprintf("back-%.8s", ref.ID)}, area, ref.Name)
	if err != nil {
		return err
	}
	if _, err := fork.Restore(ctx, snapshot.RestoreOptions{Name: got.Name, Caller: r.Caller}); err != nil {
		return err
	}
	sent.ReturnedID = ref.ID

	return nil
}

// handoffText returns the command for the other machine, and the text of HandoffNote.
func handoffText(result *HandedOff) string {
	text := ""
	if result.Line != "" {
		text = result.Line + " PATH\n"
	}
	return text + HandoffNote(result) + "\n"
}

// HandoffNote describes a handoff: its size, the agent's session, the paths left out, and how often the line
// works.
func HandoffNote(result *HandedOff) string {
	verb, sent := "handed off", "sent"
	if result.DryRun {
		verb, sent = "would hand off", "to send"
	}

	text := fmt.Sprintf("%s %s of %s to %s, %s %s", verb, plural(int(result.Files), "file", "files"), BytesText(result.Bytes), result.Remote, BytesText(result.Sent), sent)
	if result.Session != "" {
		text += "\nthe agent's session " + result.Session + " travels with it"
	}
	if len(result.LeftOut) > 0 {
		text += "\nleft out: " + gitquote.ListNames(result.LeftOut)
	}
	if !result.DryRun {
		text += fmt.Sprintf("\nthe line works %s until %s; then `amberfs handoff --back` there and here",
			map[bool]string{true: "once", false: fmt.Sprintf("%d times", result.Times)}[result.Times == 1], result.Expires.Local().Format(time.DateTime))
	}

	return text
}
