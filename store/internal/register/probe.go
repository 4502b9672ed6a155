package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/drive"
)

// Probe implements [driver.Prober]. What it writes a candidate may write: a record that is absent it creates free and
// without a mark, and one that is free it seals.
func (e *Elector) Probe(ctx context.Context) (p driver.Probe, err error) {
	p.Reads, err = drive.Probe(ctx, func(ctx context.Context) (time.Duration, error) {
		begun := time.Now()
		_, err := e.register.Read(ctx)
		return time.Since(begun), err
	})
	if err != nil {
		return p, err
	}
	if p.Writes, err = drive.Probe(ctx, e.rewrite); err != nil {
		p.Unwritten = err.Error()
	}
	return p, nil
}

// rewrite writes the record once, unless there is a leader. It returns 0 if the record has changed before.
func (e *Elector) rewrite(ctx context.Context) (time.Duration, error) {
	k, err := e.register.Read(ctx)
	if err != nil {
		return 0, err
	}
	text := ""
	if k.Version == "" {
		text, err = encode(&protocol.Record{
			Nonce: protocol.Nonce{rand.Uint64(), rand.Uint64()}, Duration: max(e.cfg.Lease, e.cfg.MaxLease), Store: k.Store,
		}, time.Time{}, nil, "")
	} else {
		var in *record
		if _, in, err = own(k.Text); err != nil {
			return 0, err
		}
		if in.Holder != "" || k.Deaf != "" {
			return 0, fmt.Errorf("%s leads", cmp.Or(in.Holder, "another program"))
		}
		in.Seal++
		text, err = in.text()
	}
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if _, err := e.register.Write(ctx, k.Version, text); errors.Is(err, ErrConflict) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}
