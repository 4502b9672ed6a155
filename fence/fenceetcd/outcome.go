package fenceetcd

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/electd/elect/fence"
)

// outcome adds [fence.ErrUnknownOutcome] to the error of a transaction, unless it is an
// answer of etcd that says that the request was not as it should be.
func outcome(err error) error {
	if answer, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		switch answer.Code() {
		case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated:
			return fmt.Errorf("fenceetcd: %w", err)
		}
	}
	return fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, err)
}
