package peer

import (
	"context"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/runtime"
)

var errClosed = runtime.ErrClosed

// mandate is one victory of a node: what a Runner gives, and what peers can do besides.
type mandate struct {
	*runtime.Mandate
	n *Node
}

var _ interface {
	driver.Mandate
	driver.Confirmer
	driver.MandateTransferrer
	driver.Attestable
} = (*mandate)(nil)

// unproven is a victory without a lease: what it can do is no more than
// [driver.Mandate] asks for.
type unproven struct{ m *mandate }

func (u unproven) Token() fence.Token                { return u.m.Token() }
func (u unproven) Context() context.Context          { return u.m.Context() }
func (u unproven) Check() error                      { return u.m.Check() }
func (u unproven) Remaining() (time.Duration, bool)  { return 0, true }
func (u unproven) Release(ctx context.Context) error { return u.m.Release(ctx) }

// Release implements [driver.Mandate]. Nothing in it waits for a disk; with
// positions it waits until the successor has caught up, see [Node.align].
func (m *mandate) Release(ctx context.Context) error {
	m.n.align(ctx, m)
	return m.Mandate.Release(ctx)
}
