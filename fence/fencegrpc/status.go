package fencegrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/electd/elect/fence"
)

// Domain is the domain of the ErrorInfo in a refusal.
const Domain = "fencing.electd"

// The metadata of the ErrorInfo.
const (
	infoResource = "resource"
	infoShown    = "shown"
	infoHighest  = "highest"
)

// errFailed replaces the mark's own error for clients, because that may name hosts. The handler of a call has not
// run. For a claim it is not known whether the mark was raised.
var errFailed = errors.New("the mark could not be read or raised")

// codeOf is the code of a result.
func codeOf(result fence.Result) codes.Code {
	switch result {
	case fence.Stale:
		return codes.FailedPrecondition
	case fence.Missing, fence.Malformed, fence.Foreign:
		return codes.InvalidArgument
	case fence.Ended:
		return codes.Aborted
	}
	return codes.Unavailable
}

// refusal makes a status of a guard's error. Details about the mark are for the server's log only.
func refusal(shown fence.Shown, result fence.Result, err error) error {
	info := &errdetails.ErrorInfo{
		Reason:   strings.ToUpper(string(result)),
		Domain:   Domain,
		Metadata: map[string]string{infoResource: string(shown.Resource), infoShown: shown.Token.String()},
	}
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		info.Metadata[infoHighest] = stale.Highest.String()
	}
	if result == fence.Failed {
		err = errFailed
	}
	s, detailed := status.New(codeOf(result), err.Error()).WithDetails(info)
	if detailed != nil {
		return status.Error(codes.Internal, detailed.Error())
	}
	return s.Err()
}

// refused is the status of a refused call, as a client has it. It is still a status to
// status.FromError.
type refused struct {
	err    error
	status *status.Status
}

func (r *refused) Error() string              { return r.err.Error() }
func (r *refused) Unwrap() error              { return r.err }
func (r *refused) GRPCStatus() *status.Status { return r.status }

// FromError translates the error of a call as [Client] does, for programs with interceptors of their own. shown is
// what the call has shown. io.EOF, nil, and the handler's own answers are returned unchanged.
func FromError(err error, shown fence.Shown) error {
	if err == nil || err == io.EOF {
		return err
	}
	if _, ok := errors.AsType[*refused](err); ok {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err) // Unknown, if it is none
	}
	if info := infoOf(s); info != nil {
		return &refused{err: refusalOf(s, info, shown), status: s}
	}
	switch s.Code() {
	// the answer may have been too large
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Internal, codes.Unknown, codes.ResourceExhausted:
		return &refused{err: fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, err), status: s}
	}
	return err
}

// infoOf returns the detail that a refusal has, nil if it is none.
func infoOf(s *status.Status) *errdetails.ErrorInfo {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info
		}
	}
	return nil
}

// refusalOf reads a detail. One that does not match its status, or what was shown, is an unknown outcome.
func refusalOf(s *status.Status, info *errdetails.ErrorInfo, shown fence.Shown) error {
	result := fence.Result(strings.ToLower(info.GetReason()))
	if codeOf(result) != s.Code() {
		return fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, s.Err())
	}
	switch result {
	case fence.Stale:
		highest, err := fence.ParseToken(info.GetMetadata()[infoHighest])
		same := fence.Shown{Resource: fence.Resource(info.GetMetadata()[infoResource]), Token: shown.Token} == shown &&
			info.GetMetadata()[infoShown] == shown.Token.String()
		if err != nil || !same || highest <= shown.Token {
			return fmt.Errorf("%w: a refusal that does not fit what was shown, %v: %w", fence.ErrUnknownOutcome, shown, s.Err())
		}
		return &fence.StaleError{Shown: shown.Token, Highest: highest}
	case fence.Missing, fence.Malformed, fence.Foreign, fence.Busy:
		return fmt.Errorf("%w: %s", result.Err(), strings.TrimPrefix(s.Message(), result.Err().Error()+": "))
	case fence.Failed:
		return fmt.Errorf("fencegrpc: refused: %w", errFailed)
	}
	return fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, s.Err())
}

// waitEnded is the status of a call whose context ended before it was admitted.
func waitEnded(ctx context.Context) error { return status.FromContextError(ctx.Err()).Err() }
