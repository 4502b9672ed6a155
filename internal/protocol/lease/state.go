package lease

import (
	"fmt"

	"github.com/electd/elect/internal/protocol"
)

// AppendState implements [protocol.Machine].
func (m *Machine) AppendState(dst []byte) []byte {
	dst = protocol.AppendUint(dst, uint64(m.stage))
	dst = protocol.AppendString(dst, m.fault)
	dst = protocol.AppendReading(dst, m.clock)
	dst = protocol.AppendUint(dst, m.seed)
	dst = protocol.AppendBool(protocol.AppendBool(dst, m.candidate), m.sick)
	dst = protocol.AppendUint(protocol.AppendUint(dst, m.asked), m.attempt)

	dst = protocol.AppendUint(dst, m.flight.number)
	dst = protocol.AppendUint(dst, uint64(m.flight.kind))
	dst = appendRecord(dst, &m.flight.record)
	dst = appendFloor(dst, &m.flight.floor)
	dst = protocol.AppendUint(dst, m.watch.number)
	dst = protocol.AppendInstant(dst, m.watch.at)
	dst = protocol.AppendDuration(dst, m.watch.pause)

	s := &m.seen
	dst = protocol.AppendBool(dst, s.any)
	dst = protocol.AppendUint(dst, s.version)
	dst = appendRecord(dst, &s.record)
	dst = protocol.AppendString(dst, s.store)
	dst = protocol.AppendInstant(dst, s.at)
	dst = protocol.AppendString(dst, m.store)
	dst = protocol.AppendUint(protocol.AppendUint(dst, m.top), m.newest)
	dst = appendFloor(dst, &m.floor)
	dst = protocol.AppendDuration(dst, m.longest)
	dst = appendMark(dst, m.held)
	dst = protocol.AppendBool(dst, m.lapsed)

	o := &m.own
	dst = appendNonce(dst, o.nonce)
	dst = protocol.AppendUint(dst, o.count)
	dst = protocol.AppendBool(protocol.AppendBool(protocol.AppendBool(dst, o.landed), o.gone), o.passed)
	dst = protocol.AppendUint(dst, o.version)
	dst = appendRecord(dst, &o.base)
	dst = protocol.AppendString(protocol.AppendString(dst, o.store), o.stop)
	dst = protocol.AppendUint(dst, uint64(m.tried.n))
	for i := range m.tried.n {
		a := &m.tried.all[i]
		dst = protocol.AppendUint(protocol.AppendInstant(protocol.AppendUint(dst, a.number), a.sent), a.wanted)
	}
	dst = appendMark(dst, m.ended)
	dst = protocol.AppendBool(protocol.AppendBool(dst, m.yield), m.doubt)

	dst = protocol.AppendInstant(protocol.AppendInstant(protocol.AppendInstant(dst, m.readAt), m.writeAt), m.claimEnd)
	return protocol.AppendUint(protocol.AppendUint(dst, m.wanted), m.confirmed)
}

// LoadState implements [protocol.Machine].
func (m *Machine) LoadState(src []byte) error {
	d := protocol.NewDecoder(src)
	n := Machine{c: m.c}
	n.stage = stage(small(d, "stage", uint64(halted)))
	n.fault = d.String()
	n.clock = d.Reading()
	n.seed = d.Uint()
	n.candidate, n.sick = d.Bool(), d.Bool()
	n.asked, n.attempt = d.Uint(), d.Uint()

	n.flight = flight{number: d.Uint(), kind: kind(small(d, "kind of ask", uint64(free))), record: readRecord(d), floor: readFloor(d)}
	n.watch = watch{number: d.Uint(), at: d.Instant(), pause: d.Duration()}

	n.seen = sight{any: d.Bool(), version: d.Uint(), record: readRecord(d), store: d.String(), at: d.Instant()}
	n.store = d.String()
	n.top, n.newest, n.floor = d.Uint(), d.Uint(), readFloor(d)
	n.longest = d.Duration()
	n.held, n.lapsed = readMark(d), d.Bool()

	n.own = tenure{
		nonce: readNonce(d), count: d.Uint(), landed: d.Bool(), gone: d.Bool(), passed: d.Bool(),
		version: d.Uint(), base: readRecord(d), store: d.String(), stop: protocol.Reason(d.String()),
	}
	if n.tried.n = d.Len(24); n.tried.n > kept {
		d.Fail(fmt.Errorf("%d attempts; want at most %d", n.tried.n, kept))
		n.tried.n = 0
	}
	for i := range n.tried.n {
		n.tried.all[i] = attempt{number: d.Uint(), sent: d.Instant(), wanted: d.Uint()}
	}
	n.ended, n.yield, n.doubt = readMark(d), d.Bool(), d.Bool()

	n.readAt, n.writeAt, n.claimEnd = d.Instant(), d.Instant(), d.Instant()
	n.wanted, n.confirmed = d.Uint(), d.Uint()
	if err := d.Done(); err != nil {
		return fmt.Errorf("lease: state: %w", err)
	}
	*m = n
	return nil
}

// small reads an integer that is at most most.
func small(d *protocol.Decoder, what string, most uint64) uint64 {
	v := d.Uint()
	if v > most {
		d.Fail(fmt.Errorf("a %s of %d; want at most %d", what, v, most))
		return 0
	}
	return v
}

func appendNonce(dst []byte, n protocol.Nonce) []byte {
	return protocol.AppendUint(protocol.AppendUint(dst, n[0]), n[1])
}

func readNonce(d *protocol.Decoder) protocol.Nonce { return protocol.Nonce{d.Uint(), d.Uint()} }

func appendMark(dst []byte, f protocol.FreeMark) []byte {
	return protocol.AppendUint(appendNonce(protocol.AppendString(dst, f.Holder), f.Nonce), f.Count)
}

func readMark(d *protocol.Decoder) protocol.FreeMark {
	return protocol.FreeMark{Holder: protocol.NodeID(d.String()), Nonce: readNonce(d), Count: d.Uint()}
}

func appendFloor(dst []byte, f *floor) []byte {
	dst = protocol.AppendUint(protocol.AppendUint(protocol.AppendString(dst, f.store), f.count), f.version)
	return protocol.AppendUint(appendNonce(dst, f.nonce), f.attempt)
}

func readFloor(d *protocol.Decoder) floor {
	return floor{store: d.String(), count: d.Uint(), version: d.Uint(), nonce: readNonce(d), attempt: d.Uint()}
}

func appendRecord(dst []byte, r *protocol.Record) []byte {
	dst = appendNonce(protocol.AppendString(dst, r.Holder), r.Nonce)
	dst = protocol.AppendUint(protocol.AppendUint(dst, r.Count), r.Attempt)
	dst = appendMark(protocol.AppendDuration(dst, r.Duration), r.Free)
	return protocol.AppendString(dst, r.Store)
}

func readRecord(d *protocol.Decoder) protocol.Record {
	return protocol.Record{
		Holder: protocol.NodeID(d.String()), Nonce: readNonce(d), Count: d.Uint(), Attempt: d.Uint(),
		Duration: d.Duration(), Free: readMark(d), Store: d.String(),
	}
}
