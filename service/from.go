package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// isRemote reports whether what a fork is to begin from is REMOTE@SNAPSHOT: no name of a
// snapshot holds an @.
func isRemote(from string) bool {
	return strings.Contains(from, "@") && !strings.HasPrefix(from, "label:")
}

// localName is what a snapshot is called here, of which REMOTE@SNAPSHOT becomes one of the
// workspace, its contents being fetched when they are read. Any other name stays.
func (s *Service) localName(ctx context.Context, r *Request, from string) (string, error) {
	if !isRemote(from) {
		return from, nil
	}
	at := strings.LastIndexByte(from, '@')
	if at == 0 || at == len(from)-1 {
		return "", fail.New(fail.Usage, "a snapshot on a remote is named as REMOTE@SNAPSHOT, not %q", from)
	}
	there, err := s.remote(r, from[:at])
	if err != nil {
		return "", err
	}
	ref, err := s.Remotes.Source(ctx, there, from[at+1:])
	if err != nil {
		return "", remoteFailed(from[:at], err)
	}
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if here, err := r.Workspace.Find(ref.ID); err == nil {
		return here.Name, nil
	}
	return s.known(r, ref)
}

// known makes a snapshot that the store reads from elsewhere one of the workspace.
func (s *Service) known(r *Request, ref *remote.Ref) (string, error) {
	defer s.Store.Importing()()
	info := InfoOf(ref)
	info.Name = naming.Local(info.Name)
	if err := r.Workspace.Remotes().MayPull(info); errors.Is(err, errs.Exist) {
		info.Name = fmt.Sprintf("%.100s-%.8s", info.Name, info.ID)
	} else if err != nil {
		return "", err
	}
	info, err := r.Workspace.Remotes().Pulled(info, ref.State(), r.Caller)
	return info.Name, err
}
