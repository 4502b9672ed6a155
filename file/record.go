//go:build linux || darwin || freebsd

package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

const (
	recordName    = "record"
	recordNewName = "record.new"
	recordVersion = 1

	// maxRecord bounds what a reader reads from the file. Metadata of the greatest size takes six times that if every
	// byte of it is escaped.
	maxRecord = 64 << 10
)

// record identifies the leader. Each new leader writes it and none deletes it: it counts only while the lock says
// that there is a leader.
type record struct {
	Version  int               `json:"version"`
	ID       string            `json:"id"`
	Token    fence.Token       `json:"token"`
	PID      int               `json:"pid"`
	Host     string            `json:"host"`
	Since    time.Time         `json:"since"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func (r *record) encode() ([]byte, error) {
	r.Version = recordVersion
	b, err := json.Marshal(r)
	return append(b, '\n'), err
}

// decodeRecord reads what encode wrote. It ignores unknown fields, so that a later version may add some.
func decodeRecord(b []byte) (*record, error) {
	if len(b) > maxRecord {
		return nil, fmt.Errorf("record has more than %d bytes", maxRecord)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	var r record
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("record is not the expected JSON: %w", err)
	}
	switch {
	case r.Version != recordVersion:
		return nil, fmt.Errorf("record has version %d; want %d", r.Version, recordVersion)
	case !r.Token.Valid():
		return nil, errors.New("record has no token")
	}
	if err := driver.CheckID(r.ID); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := driver.CheckMetadata(r.Metadata); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return &r, nil
}

func (r *record) leader() *driver.Leader {
	return &driver.Leader{ID: r.ID, Token: r.Token, Metadata: r.Metadata, Since: r.Since}
}
