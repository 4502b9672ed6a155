package link

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// guest is an accepted connection whose caller is not yet known, or which is being refused.
type guest struct {
	raw net.Conn
	ip  netip.Addr // where it comes from
}

// accept takes connections until the listener is closed.
func (l *Link) accept() {
	pause := 5 * time.Millisecond
	for {
		raw, err := l.cfg.Listener.Accept()
		switch {
		case err == nil:
			pause = 5 * time.Millisecond
			l.admitGuest(raw)
			continue
		case l.ctx.Err() != nil:
			return
		}
		// Most likely there are no descriptors left. Some will become free.
		l.strange.log(l.log, "accept "+reason(err), "cannot accept connections", "error", err)
		if errors.Is(err, net.ErrClosed) || !wait(l.ctx, pause) {
			return
		}
		pause = min(2*pause, time.Second)
	}
}

// wait waits for d. It returns false if ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// admitGuest starts the handshake with a caller. If too many handshakes are under way it drops one of them.
func (l *Link) admitGuest(raw net.Conn) {
	g := &guest{raw, ipOf(raw.RemoteAddr())}
	var drop *guest
	l.mu.Lock()
	closing := l.closing
	full := l.accepted >= maxAccepted
	if !closing && !full {
		l.accepted++
		l.guests = append(l.guests, g)
		if len(l.guests) > maxGuests {
			i := victim(l.guests, l.homes())
			drop = l.guests[i]
			l.guests = slices.Delete(l.guests, i, i+1)
		}
	}
	l.mu.Unlock()
	switch {
	case closing:
		_ = raw.Close()
		return
	case full:
		_ = raw.Close()
		l.strange.log(l.log, "many", "too many connections", "limit", maxAccepted, "from", raw.RemoteAddr())
		return
	case drop != nil:
		_ = drop.raw.Close()
		l.strange.log(l.log, "guests "+network(drop.ip).String(), "too many connections of strangers: one was dropped",
			"limit", maxGuests, "from", drop.ip)
	}
	tune(raw, l.idle())
	l.work.Go(func() {
		defer func() {
			l.known(g)
			l.mu.Lock()
			l.accepted--
			l.mu.Unlock()
		}()
		defer l.closeOnEnd(raw)()
		l.receive(g)
	})
}

// known takes a guest off the list of those that may be dropped. It returns false if the guest is not on it, and may
// have been dropped.
func (l *Link) known(g *guest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.guests, g)
	if i >= 0 {
		l.guests = slices.Delete(l.guests, i, i+1)
	}
	return i >= 0
}

// victim picks the guest to drop: one from the network that has most of them, and none from the address of a peer
// while there are others. It chooses among equals by chance, so that a flood cannot tell how long it must go on (as
// with MaxStartups of sshd).
func victim(guests []*guest, homes map[netip.Addr]bool) int {
	strangers := func(g *guest) bool { return !homes[g.ip] }
	if !slices.ContainsFunc(guests, strangers) {
		strangers = func(*guest) bool { return true }
	}
	count, most := make(map[netip.Prefix]int), 0
	for _, g := range guests {
		if strangers(g) {
			count[network(g.ip)]++
			most = max(most, count[network(g.ip)])
		}
	}
	var equals []int
	for i, g := range guests {
		if strangers(g) && count[network(g.ip)] == most {
			equals = append(equals, i)
		}
	}
	return equals[rand.IntN(len(equals))]
}

// homes returns the known addresses of peers: configured, dialled with success, or called from once admitted. The
// lock is held.
func (l *Link) homes() map[netip.Addr]bool {
	all := make(map[netip.Addr]bool)
	for _, p := range l.peers {
		for _, ip := range []netip.Addr{p.home, p.calls} {
			if ip.IsValid() {
				all[ip] = true
			}
		}
	}
	return all
}

// ipOf is an address without its port; the zero Addr if there is none.
func ipOf(a net.Addr) netip.Addr {
	if a == nil {
		return netip.Addr{}
	}
	return ipIn(a.String())
}

// ipIn is the address in host:port; the zero Addr if the host is a name.
func ipIn(text string) netip.Addr {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// network is the range that one owner usually has: one address of IPv4, 2^64 of IPv6.
func network(ip netip.Addr) netip.Prefix {
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}

// closeOnEnd ends a connection when the Link is closed, unless Close itself handles it. The returned function cancels
// that.
func (l *Link) closeOnEnd(raw net.Conn) func() {
	stop := context.AfterFunc(l.ctx, func() {
		if !l.isLive(raw) {
			_ = raw.Close()
		}
	})
	return func() { stop() }
}

func (l *Link) isLive(raw net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.live {
		if c.raw == raw {
			return true
		}
	}
	return false
}

// limiter keeps other hosts from filling a log: it passes a few lines a second, and the same one at most twice a
// minute.
type limiter struct {
	mu    sync.Mutex
	lines int       // in the present second
	since time.Time // when that second began
	left  int       // lines dropped since the last one written
	same  map[string]time.Time
}

const (
	linesPerSecond = 5
	sameAfter      = time.Minute
	maxSame        = 64 // lines that are remembered
)

// log writes a line. Lines with the same key count as the same.
func (r *limiter) log(to *slog.Logger, key, text string, args ...any) {
	now := time.Now()
	r.mu.Lock()
	if now.Sub(r.since) >= time.Second {
		r.lines, r.since = 0, now
	}
	full := r.lines >= linesPerSecond
	if at, ok := r.same[key]; ok && now.Sub(at) < sameAfter {
		full = true
	} else if !full {
		if r.same == nil || len(r.same) >= maxSame {
			r.same = make(map[string]time.Time)
		}
		r.same[key] = now
	}
	left := r.left
	if !full {
		r.lines++
	}
	if full {
		r.left++
	} else {
		r.left = 0
	}
	r.mu.Unlock()
	if full {
		return
	}
	if left > 0 {
		args = append(args, "left_out_before", left)
	}
	to.Warn(text, args...)
}
