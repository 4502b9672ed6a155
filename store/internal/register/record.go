package register

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/drive"
)

// format is the version of the record's form.
const format = 1

// MaxRecord is the greatest length of a record in bytes: the longest metadata that
// package driver allows, with each byte written as six, and what else there is.
const MaxRecord = 32 << 10

// record is what a store keeps, as JSON. It is the lease's record, with what people and
// observers want to know of the holder.
type record struct {
	Format   int               `json:"format"`
	Holder   string            `json:"holder,omitempty"` // "": free
	Count    uint64            `json:"count"`            // of the token
	Nonce    string            `json:"nonce"`            // of the attempt at a tenure
	Attempt  uint64            `json:"attempt"`          // rises with each write of a process
	Lease    string            `json:"lease"`            // how long others wait for the holder
	Freed    *mark             `json:"freed,omitempty"`  // the tenure that a release has ended
	Store    string            `json:"store,omitempty"`  // the store's incarnation at the acquisition
	Since    time.Time         `json:"since,omitzero"`   // by the holder's wall clock, for people
	Metadata map[string]string `json:"metadata,omitempty"`
	// Seal counts how often the record was written again only to have it acknowledged. It serves
	// only to make the text differ.
	Seal uint64 `json:"seal,omitempty"`
	// Wish is a drive.Wish, which an operator writes and the holder answers. Malformed text is no wish.
	Wish json.RawMessage `json:"wish,omitempty"`
}

type mark struct {
	Holder string `json:"holder"`
	Nonce  string `json:"nonce"`
	Count  uint64 `json:"count"`
}

// encode returns the record's text. Equal arguments give equal texts.
func encode(r *protocol.Record, since time.Time, metadata map[string]string, wish string) (string, error) {
	out := record{
		Format: format, Holder: string(r.Holder), Count: r.Count, Nonce: r.Nonce.String(), Attempt: r.Attempt,
		Lease: r.Duration.String(), Store: r.Store, Wish: json.RawMessage(wish),
	}
	if r.Holder != "" {
		out.Since, out.Metadata = since.UTC().Truncate(time.Millisecond), metadata
	}
	if r.Free != (protocol.FreeMark{}) {
		out.Freed = &mark{Holder: string(r.Free.Holder), Nonce: r.Free.Nonce.String(), Count: r.Free.Count}
	}
	return out.text()
}

// text is the record as the store keeps it.
func (r *record) text() (string, error) {
	text, err := json.Marshal(r)
	switch {
	case err != nil: // of strings and numbers it never fails
		return "", err
	case len(text) > MaxRecord:
		return "", fmt.Errorf("a record of %d bytes; want at most %d", len(text), MaxRecord)
	}
	return string(text), nil
}

// decode reads a record. What it does not know is an error: a program that writes more
// into the record, or another form, could mean something by it.
func decode(text string) (*protocol.Record, *record, error) {
	if len(text) > MaxRecord {
		return nil, nil, fmt.Errorf("it has %d bytes; want at most %d", len(text), MaxRecord)
	}
	var in record
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("more follows after it")
	}
	if in.Format != format {
		return nil, nil, fmt.Errorf("it has format %d; want %d", in.Format, format)
	}
	r := &protocol.Record{Holder: protocol.NodeID(in.Holder), Count: in.Count, Attempt: in.Attempt, Store: in.Store}
	var err error
	if r.Nonce, err = drive.ParseNonce(in.Nonce); err != nil {
		return nil, nil, err
	}
	if r.Duration, err = time.ParseDuration(in.Lease); err != nil {
		return nil, nil, fmt.Errorf("lease: %w", err)
	}
	if m := in.Freed; m != nil {
		r.Free = protocol.FreeMark{Holder: protocol.NodeID(m.Holder), Count: m.Count}
		if r.Free.Nonce, err = drive.ParseNonce(m.Nonce); err != nil {
			return nil, nil, fmt.Errorf("freed: %w", err)
		}
	}
	for _, id := range []string{in.Holder, string(r.Free.Holder)} {
		if id != "" {
			if err := driver.CheckID(id); err != nil {
				return nil, nil, err
			}
		}
	}
	return r, &in, nil
}

// Summary is what a store that others use, too, shows them of a record.
type Summary struct {
	Holder, Nonce string // no Holder: free
	Freed         bool   // by a release; otherwise a record without a holder was just created
	Count         uint64
	Lease         time.Duration
	Since         time.Time
	Store         string
}

// Summarize reads a record.
func Summarize(text string) (Summary, error) {
	r, in, err := decode(text)
	if err != nil {
		return Summary{}, err
	}
	return Summary{Holder: in.Holder, Nonce: in.Nonce, Freed: in.Freed != nil, Count: in.Count, Lease: r.Duration, Since: in.Since, Store: in.Store}, nil
}

// Foreign is the text of a record for what another program has written, of which s tells.
func Foreign(s Summary) string {
	in := record{Format: format, Holder: s.Holder, Count: s.Count, Nonce: s.Nonce, Lease: s.Lease.String(), Store: s.Store, Since: s.Since}
	text, _ := in.text() // never fails for these fields
	return text
}

// Raised returns a record with at least that count.
func Raised(text string, count uint64) (string, error) {
	_, in, err := decode(text)
	if err != nil || in.Count >= count {
		return text, err
	}
	in.Count = count
	return in.text()
}

// News reports whether text, which replaces old, is more than a renewal.
func News(old, text string) bool {
	_, a, err := decode(old)
	_, b, bad := decode(text)
	if err != nil || bad != nil {
		return true
	}
	a.Attempt, a.Seal, b.Attempt, b.Seal = 0, 0, 0, 0
	return !reflect.DeepEqual(a, b)
}

// numbered is the number by which the machine knows a version. Two versions of one record
// have the same one with a probability of 2⁻⁶³, and then one renewal is not seen as new.
func numbered(version string) uint64 {
	sum := sha256.Sum256([]byte(version))
	return binary.BigEndian.Uint64(sum[:]) | 1
}

// leader is the holder as observers are shown it.
func (r *record) leader() *driver.Leader {
	return &driver.Leader{ID: r.Holder, Metadata: maps.Clone(r.Metadata), Since: r.Since}
}
