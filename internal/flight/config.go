package flight

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
)

// Config configures a Recorder.
type Config struct {
	// Dir is the directory of the segments. It exists, and only the Recorder writes files flight-*.ndjson into it.
	Dir place.At
	// Node is the node of the machine, and Protocol the machine's name in traces.
	Node     protocol.NodeID
	Protocol string
	// Config is the configuration that the machine was made from; for quorum a quorum.Config. An equal machine can be
	// made from it.
	Config json.RawMessage
	// Build is the version of the program, for a replay of the record.
	Build string
	// MaxBytes is the approximate greatest size of a segment; 4 MiB by default.
	MaxBytes int64
	// MaxAge is how long a segment lasts, by the Boot clock of the inputs; 5 minutes by default.
	MaxAge time.Duration
}

// The defaults.
const (
	DefaultMaxBytes = 4 << 20
	DefaultMaxAge   = 5 * time.Minute
)

// normal fills in the defaults, or returns what is wrong.
func (c Config) normal() (Config, error) {
	if c.MaxBytes < 0 || c.MaxAge < 0 {
		return c, fmt.Errorf("flight: segments of %d bytes and %v; want more than 0, or 0 for %d bytes and %v", c.MaxBytes, c.MaxAge, DefaultMaxBytes, DefaultMaxAge)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	if len(c.Config) > 0 && !json.Valid(c.Config) {
		return c, fmt.Errorf("flight: the machine's configuration is no JSON")
	}
	if err := c.header().Validate(); err != nil {
		return c, fmt.Errorf("flight: %w", err)
	}
	return c, nil
}

func (c Config) header() *trace.Header {
	return &trace.Header{
		Format: trace.Format, Protocol: c.Protocol, Source: trace.Recorder, Build: c.Build,
		Nodes: []trace.Node{{ID: c.Node, Config: c.Config}},
	}
}
