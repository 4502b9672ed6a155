package etcd

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/store/internal/pool"
)

// checks makes the requests of Verify and Touch of all elections that share a client. Each is at most three reads, or
// one transaction; those that wait together become one transaction. If that only reads, it is a linearizable read in
// etcd; if it writes, the client does not repeat it. Machines check at common instants, so this is one request for many
// elections.
type checks = pool.Batch[[]clientv3.Op, checked]

type checked struct {
	revision int64
	answers  []*pb.ResponseOp // one for each operation
}

// atATime is how many checks are in one transaction: etcd allows 128 operations by default.
const atATime = 40

func newChecks(life context.Context, commit func(context.Context, ...clientv3.Op) (*clientv3.TxnResponse, error)) *checks {
	return &checks{
		Life: life, Most: atATime,
		Ask: func(ctx context.Context, all [][]clientv3.Op) (answers []checked, _ error) {
			r, err := commit(ctx, slices.Concat(all...)...)
			if err != nil {
				return nil, err
			}
			for _, ops := range all {
				answers = append(answers, checked{r.Header.Revision, r.Responses[:len(ops)]})
				r.Responses = r.Responses[len(ops):]
			}
			return answers, nil
		},
		// Two that touch one election are refused together, too.
		Halve: func(err error) bool {
			return isOne(err, rpctypes.ErrPermissionDenied, rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrNoSpace)
		},
	}
}
