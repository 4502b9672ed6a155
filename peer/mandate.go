package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
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
	driver.MetadataSetter
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

// SetMetadata implements [driver.MetadataSetter]. The machine takes new metadata with the command to campaign, which
// changes nothing else in a leader. Later heartbeats carry it.
func (m *mandate) SetMetadata(ctx context.Context, metadata map[string]string) error {
	if err := driver.CheckMetadata(metadata); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	raw, err := json.Marshal(metadata)
	if err != nil {
		return fmt.Errorf("metadata: %w", err) // it never fails for strings
	}
	err = driver.ErrNoLeader // Over gives a better reason
	if !m.n.run.Call(func() {
		if m.n.run.Held() != m.Mandate || m.Over() != nil {
			return
		}
		err = nil
		m.n.leaders.own.metadata, m.n.leaders.own.raw = metadata, string(raw)
		m.n.run.Command(protocol.Command{Verb: protocol.Campaign, Metadata: string(raw)})
	}) {
		err = errClosed
	}
	if why := m.Over(); err != nil && why != nil {
		return why
	}
	return err
}

// Eligible implements [driver.MandateTransferrer].
func (m *mandate) Eligible(to string) error {
	err := driver.ErrNoLeader
	if !m.n.run.Call(func() {
		if m.n.run.Held() == m.Mandate {
			err = m.n.handover.eligible(protocol.NodeID(to))
		}
	}) {
		return errClosed
	}
	if why := m.Over(); why != nil && errors.Is(err, driver.ErrNoLeader) {
		return why
	}
	return err
}

// Transfer implements [driver.MandateTransferrer].
func (m *mandate) Transfer(ctx context.Context, to string) error {
	m.n.run.Call(func() {
		if m.n.run.Held() == m.Mandate {
			m.n.handover.handTo(protocol.NodeID(to))
		}
	})
	return m.Release(ctx)
}
