// Package consul elects over a key of Consul's key/value store.
//
// [New] takes the address of an agent, and a token; [Open] takes both from a URL and the environment of Consul's own
// programs. A leader writes its key again four times a lease. A candidate reads the key as often, and takes it when it
// has not changed for a whole lease, by its own clock: no clock is compared with another. A blocking query tells it
// when the leader leaves. No session is used, so there is no TTL of at least 10 s, and no lock-delay.
//
// Each write is a transaction of one operation, cas: a compare-and-set on the key's ModifyIndex, whose answer tells
// the new one. Reads that count are consistent: the leader of the servers asks a majority whether it still leads.
//
// # Guarantee
//
// At most one participant has a proven lease at a time, and tokens rise, while the rates of clocks are true within 5 %
// and Consul keeps what it has acknowledged. A snapshot that is restored takes the key back, and Consul does not say
// so. A participant that has seen a later record notices: a leader ends its term, and a candidate waits for
// [Config].MaxLease. A participant that starts after the restore cannot notice it: stop the participants before a
// restore, and raise [Config].Era.
//
// The first leader of a new key waits for MaxLease, as does any candidate that finds the key deleted. Programs with a
// lock of Consul's own, by api.Lock or consul lock, are no candidates of the election, and their keys are refused.
package consul

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/register"
)

// Agent is how an agent of Consul is reached: that of this machine, as is usual, or a server.
type Agent struct {
	// Address is http://HOST:PORT or https://HOST:PORT. "" means http://127.0.0.1:8500.
	Address string

	// Token is sent with each request. "" is none.
	Token string

	// HTTP makes the requests. A copy of it is used, which follows no redirects. Sockets and certificates are those of
	// its transport, as of the HttpClient of api.Config. Nil means [http.DefaultTransport].
	HTTP *http.Client
}

// Config configures a participant. The zero value of each field is its documented default. All participants of an
// election have the same Key, Datacenter, Namespace, Partition, MaxLease and Era.
type Config struct {
	// Key is the election's. It neither begins nor ends with a slash. "" means the election's name.
	Key string

	// Datacenter is where the key is. "" means the agent's.
	Datacenter string

	// Namespace and Partition are those of Consul Enterprise. "" means those of the token.
	Namespace, Partition string

	// Lease is how long the others wait for a leader that has fallen silent, 100 ms to 1 h. It may differ between
	// participants. 0 means 5 s.
	Lease time.Duration

	// MaxLease is the longest Lease that any participant of the election may have. It has to be the same at all of
	// them. 0 means 15 s, or Lease if that is longer.
	MaxLease time.Duration

	// Poll is the mean time between two reads of a candidate that waits. 0 means a quarter of Lease.
	Poll time.Duration

	// Era is the era of the tokens, 0 to 65535: see package fence.
	Era uint16

	// Flight is a directory for flight records: a candidate records its last minutes in a subdirectory with the
	// election's name. See docs/electlab.md. If it cannot, as when another candidate records there, it logs that, and
	// the election goes on. "" is none.
	Flight string

	// Logger receives log lines. Nil is silence.
	Logger *slog.Logger

	now func() protocol.Reading // nil: the clocks of the system
}

// clients are those of the URLs of this process. They are a variable of the package because elections are opened by
// independent calls, with no common argument.
var clients pool.Pool[access, *client]

// ErrRefused is what an error of [New] and [Open] matches if it refuses the servers, the key or the rights of the
// token, and not the arguments.
var ErrRefused = drive.ErrRefused

// New returns the participant id in the election called name. It reads the key from then on, and creates nothing before
// the first campaign. It asks Consul for the key, and returns an error marked by [driver.Permanent] that matches
// [ErrRefused] if the token may not read it, or if the key is something else. A campaign does the same if the token may
// not write. If Consul does not answer within 5 s, New logs that, and the participant asks again before anything else.
func New(ctx context.Context, a Agent, name, id string, cfg Config) (driver.Elector, error) {
	if cfg.Logger != nil { // that of an opener has the name
		cfg.Logger = cfg.Logger.With("election", name)
	}
	c, err := a.client()
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("consul: %w", err))
	}
	e, err := newElector(ctx, c, name, id, cfg, nil)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// newElector is New. source is for witnesses; nil: there are none.
func newElector(ctx context.Context, c *client, name, id string, cfg Config, source *url.URL) (*elector, error) {
	if cfg.Key == "" {
		cfg.Key = name
	}
	if err := checkKey(cfg.Key); err != nil {
		return nil, driver.Permanent(fmt.Errorf("consul: %w", err))
	}
	k := &key{client: c, Config: cfg}
	if err := drive.Begin(ctx, "Consul", cfg.Logger, func(ctx context.Context) error { _, err := k.Read(ctx); return err }); err != nil {
		return nil, err
	}
	inner, err := register.New(k, register.Config{
		Config: drive.Config{Name: name, ID: id, Era: uint64(cfg.Era), Logger: cfg.Logger, Now: cfg.now, Source: source, Flight: cfg.Flight},
		Lease:  cfg.Lease, MaxLease: cfg.MaxLease, Poll: cfg.Poll, Global: indexOf,
		Assumes: "Consul keeps every write that it has acknowledged: no snapshot is restored while participants run, and a restore raises the era",
	})
	if err != nil {
		return nil, err
	}
	return &elector{inner, k}, nil
}

// maxKey is the longest key that is taken. Consul allows no path of more than 512 bytes by default in some versions.
const maxKey = 512

// checkKey refuses keys that the path of a request cannot have: Consul would redirect it to another path.
func checkKey(key string) error {
	bad := len(key) > maxKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0)
	for part := range strings.SplitSeq(key, "/") {
		bad = bad || part == "" || part == "." || part == ".."
	}
	if bad {
		return fmt.Errorf("key %s; want UTF-8 of at most %d bytes, with no part between slashes that is empty, \".\" or \"..\"", drive.Shown(key), maxKey)
	}
	return nil
}

// elector is a participant with its key.
type elector struct {
	*register.Elector
	key *key
}

var _ interface {
	driver.Elector
	driver.Resigner
	driver.Examiner
} = (*elector)(nil)

// Examine implements [driver.Examiner].
func (e *elector) Examine(ctx context.Context) ([]driver.Finding, error) { return e.key.examine(ctx) }
