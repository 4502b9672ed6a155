package peer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
)

var _ driver.MetadataSetter = (*mandate)(nil)

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
	if !m.n.run.Call(func() {
		if m.n.run.Held() != m.Mandate || m.Over() != nil {
			err = driver.ErrNoLeader // Over gives a better reason
			return
		}
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
