package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/secure"
)

// link is a connection. That of a URL knows why it is not connected.
type link struct {
	*nats.Conn
	hosts int // of the URL; 0: it was not made from one

	patience time.Duration // with a host that answers, and not for the bucket
	turn     func()        // asks the next host

	mu      sync.Mutex
	trouble error        // of the latest attempt to connect
	silent  [2]time.Time // since when requests of each kind got no answer for the bucket; zero: the latest one got one
	turned  time.Time    // to the host: what was sent before tells nothing of it
}

// The kinds of requests. A server that is cut off from the others may answer the first kind for a while.
const (
	reading = iota
	writing
)

// heard notes what came of a request for the bucket. A server that is cut off from the others goes on answering the pings
// of its clients, so that after a while another host is asked.
func (l *link) heard(kind int, begun time.Time, err error) {
	unanswered := unavailable(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
	l.mu.Lock()
	since, turn := &l.silent[kind], false
	switch {
	case begun.Before(l.turned), errors.Is(err, context.Canceled):
	case !unanswered:
		*since = time.Time{}
	default:
		if since.IsZero() {
			*since = begun
		}
		if turn = l.hosts > 1 && time.Since(*since) >= l.patience; turn {
			l.silent, l.turned = [2]time.Time{}, time.Now()
		}
	}
	l.mu.Unlock()
	if turn {
		l.turn()
	}
}

// unavailable reports whether a server has answered that it cannot ask the bucket's leader.
func unavailable(err error) bool {
	refused, is := errors.AsType[*jetstream.APIError](err)
	down := is && refused.Code == 503 && !errors.Is(err, jetstream.ErrJetStreamNotEnabled) && !errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
	return down || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// failed notes why there is no connection.
func (l *link) failed(_ *nats.Conn, err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = err
}

// connected returns why there is no connection, nil if there is one.
func (l *link) connected() error {
	if l.IsConnected() {
		return nil
	}
	l.mu.Lock()
	err := l.trouble
	l.mu.Unlock()
	if last := l.LastError(); last != nil && (err == nil || !errors.Is(last, nats.ErrNoServers)) {
		err = last
	}
	switch {
	case err == nil:
		err = errors.New("there is no connection to a server of NATS")
	case errors.Is(err, nats.ErrNoServers): // which is what the client makes of it
		err = fmt.Errorf("%w: connection refused", err)
	}
	return explained(err)
}

// plain adds to the error of a request what is known of its cause.
func (l *link) plain(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if last := l.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			return explained(last)
		}
		if out := l.connected(); out != nil {
			return fmt.Errorf("%w: %w", err, out)
		}
	case unavailable(err):
		return fmt.Errorf("no server answers for the bucket (%w); want a server with JetStream, a majority of the bucket's servers, and the bucket itself", err)
	}
	return explained(err)
}

// remedies are what would be right, by the error.
var remedies = []struct {
	is   error
	want string
}{
	{nats.ErrAuthorization, "a user that may connect, and its password, token, nkey or credentials"},
	{nats.ErrAuthExpired, "credentials that have not expired"},
	{nats.ErrAuthRevoked, "credentials that are not revoked"},
	{nats.ErrSecureConnWanted, "tls=off if the servers have no TLS"},
	{nats.ErrPermissionViolation, `a user that may publish to "$JS.API.>" and "$KV.BUCKET.>", and subscribe to "_INBOX.>"`},
	{jetstream.ErrJetStreamNotEnabled, "servers with JetStream (jetstream {} in their configuration)"},
	{jetstream.ErrJetStreamNotEnabledForAccount, "a user whose account has JetStream"},
}

// explained adds to an error what would be right.
func explained(err error) error {
	for _, r := range remedies {
		if errors.Is(err, r.is) {
			return fmt.Errorf("%w; want %s", err, r.want)
		}
	}
	if want, _ := secure.Remedy(err); want != "" {
		return fmt.Errorf("%w; want %s", err, want)
	}
	return err
}

// lasting marks an error that only other arguments, or an administrator, mend. Another host of the URL may be right.
func (l *link) lasting(err error) error {
	if err == nil || driver.IsPermanent(err) {
		return err
	}
	_, wrong := secure.Remedy(err)
	wrong = wrong || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrSecureConnWanted)
	if wrong && l.hosts < 2 || errors.Is(err, nats.ErrPermissionViolation) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return driver.Permanent(err)
	}
	return err
}

// begin asks for the bucket at the start, until the connection is there.
func (b *bucket) begin(ctx context.Context) error {
	for {
		_, err := b.ask(ctx)
		if err = b.lasting(err); err == nil || driver.IsPermanent(err) || b.IsConnected() || b.IsClosed() {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
