package peer

import (
	"context"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/runtime"
)

var errClosed = runtime.ErrClosed

// mandate is one victory of a node: the mandate of its Runner, with the further abilities of peers.
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

// unproven is a victory without a lease. It has only the methods of [driver.Mandate].
type unproven struct{ m *mandate }

func (u unproven) Token() fence.Token                { return u.m.Token() }
func (u unproven) Context() context.Context          { return u.m.Context() }
func (u unproven) Check() error                      { return u.m.Check() }
func (u unproven) Remaining() (time.Duration, bool)  { return 0, true }
func (u unproven) Release(ctx context.Context) error { return u.m.Release(ctx) }

// Release implements [driver.Mandate]. It waits for no disk. With positions it waits until the successor has caught
// up, see handover.align.
func (m *mandate) Release(ctx context.Context) error {
	m.n.handover.align(ctx, m.Mandate)
	return m.Mandate.Release(ctx)
}
