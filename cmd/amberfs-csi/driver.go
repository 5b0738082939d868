package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

// A driver has the state that the three services of CSI share.
type driver struct {
	store, node     string
	log             *slog.Logger
	locks           locks
	credentials     credentialFiles
	answeredRemotes sync.Map // URLs, with their credentials, of remotes that have answered
}

// callDaemon calls an operation of the daemon in a fork, or in main if fork is "".
func (d *driver) callDaemon(ctx context.Context, fork string, args, result any) error {
	c, err := client.Open(ctx, client.Target{Store: d.store, Workspace: fork, Command: "amberfs-csi"})
	if err != nil {
		return status.Errorf(codes.Unavailable, "%v", err)
	}
	defer c.Close()
	return c.Do(ctx, args, client.Streams{}, result)
}

func (d *driver) daemonStatus(ctx context.Context) (st service.Status, err error) {
	err = d.callDaemon(ctx, "", service.GetStatus{}, &st)
	return st, err
}

// intercept converts the errors of requests to CSI errors and logs them, without the paths of credentials.
func (d *driver) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	if err == nil {
		return resp, nil
	}

	err = status.Error(status.Code(withCode(err)), d.credentials.hidePaths(status.Convert(withCode(err)).Message()))
	d.log.Warn("request failed", "method", info.FullMethod, "code", status.Code(err), "err", status.Convert(err).Message())

	return nil, err
}

var kindCodes = map[errs.Kind]codes.Code{
	errs.NotExist:    codes.NotFound,
	errs.Exist:       codes.AlreadyExists,
	errs.Invalid:     codes.InvalidArgument,
	errs.NameTooLong: codes.InvalidArgument,
	errs.Perm:        codes.PermissionDenied,
	errs.Protected:   codes.PermissionDenied,
	errs.ReadOnly:    codes.FailedPrecondition,
	errs.Busy:        codes.FailedPrecondition,
	errs.Conflict:    codes.Aborted,
	errs.NoSpace:     codes.ResourceExhausted,
	errs.Quota:       codes.ResourceExhausted,
	errs.Unreachable: codes.Unavailable,
	errs.Damaged:     codes.DataLoss,
}

// withCode converts an error to a CSI error, whose code tells the caller whether to try again.
func withCode(err error) error {
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}

	code, known := kindCodes[errs.ScriptKind(err)]
	switch {
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case !known:
		code = codes.Internal
	}

	return status.Error(code, err.Error())
}

// hasKind reports whether err was returned by the daemon and is of the kind.
func hasKind(err error, kind errs.Kind) bool {
	_, grpc := status.FromError(err)
	return err != nil && !grpc && errs.ScriptKind(err) == kind
}

// ignoreKind returns err, or nil if err is of the kind. It is for repeated requests, in which the steps that are done
// already fail with errors of this kind.
func ignoreKind(kind errs.Kind, err error) error {
	if hasKind(err, kind) {
		return nil
	}
	return err
}

func invalidArgument(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func notFound(format string, args ...any) error {
	return status.Errorf(codes.NotFound, format, args...)
}
