package fenceetcd

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"github.com/electd/elect/fence"
)

// outcome adds [fence.ErrUnknownOutcome] to the error of a transaction, unless it is an answer of etcd that the
// request was invalid. etcd checks a transaction before its first write (checkTxn in etcdserver/txn of 3.7): a put
// with a lease that is gone, NotFound, and a get at a compacted or future revision, OutOfRange.
//
// No other code means that nothing was applied. ResourceExhausted does not: a transaction that meets the quota of the
// database is applied, and then answered with "database space exceeded" (quotaApplierV3 in etcdserver/apply). Nor
// does a status that does not come from etcd, such as that of a proxy, whatever its code.
func outcome(err error) error {
	if answer, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		switch answer.Code() {
		case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.NotFound, codes.OutOfRange:
			return fmt.Errorf("fenceetcd: %w", err)
		}
	}
	return fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, err)
}
