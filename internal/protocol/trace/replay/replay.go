// Package replay rebuilds the machines whose steps peers, or candidates over a store, have recorded. It is for
// [trace.Decoder.Verify].
//
// A recorder writes down a machine's own configuration, and names the protocol as these do: a
// variant follows a hyphen, and is in the configuration. A maker refuses a configuration that it
// cannot read, or that belongs to another node. The functions may be called concurrently.
package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/blazingmq"
	"github.com/electd/elect/internal/protocol/bully"
	"github.com/electd/elect/internal/protocol/lease"
	"github.com/electd/elect/internal/protocol/queue"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/internal/protocol/raft"
	"github.com/electd/elect/internal/protocol/ring"
	"github.com/electd/elect/internal/protocol/trace"
)

// Makers returns a maker for each of the names by which a record calls its protocol; nil for an
// unknown name.
func Makers(names []string) map[string]trace.Maker {
	families := map[string]trace.Maker{
		quorum.Name:    maker(quorum.New, func(c *quorum.Config) protocol.NodeID { return c.Self.ID }),
		raft.Name:      maker(raft.New, func(c *raft.Config) protocol.NodeID { return c.Self }),
		ring.Name:      maker(ring.New, func(c *ring.Config) protocol.NodeID { return c.Self }),
		bully.Name:     maker(bully.New, func(c *bully.Config) protocol.NodeID { return c.Self }),
		blazingmq.Name: maker(blazingmq.New, func(c *blazingmq.Config) protocol.NodeID { return c.Self }),
		lease.Name:     maker(lease.New, func(c *lease.Config) protocol.NodeID { return c.Self }),
		queue.Name:     maker(queue.New, func(c *queue.Config) protocol.NodeID { return c.Self }),
	}
	makers := make(map[string]trace.Maker)
	for _, name := range names {
		family, _, _ := strings.Cut(name, "-")
		makers[name] = families[family]
	}
	return makers
}

func maker[C any, M protocol.Machine](fresh func(C) (M, error), self func(*C) protocol.NodeID) trace.Maker {
	return func(node protocol.NodeID, config json.RawMessage) (protocol.Machine, error) {
		var c C
		d := json.NewDecoder(bytes.NewReader(config))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return nil, err
		}
		if id := self(&c); id != node {
			return nil, fmt.Errorf("it is of %q; want that of %s", id, node)
		}
		m, err := fresh(c)
		if err != nil {
			return nil, err // and no nil machine in an interface
		}
		return m, nil
	}
}
