// Package s3 elects over objects of S3, or of a store that speaks its protocol and has conditional writes.
//
// [New] takes credentials in the form of AWS's SDK; [Open] takes a URL. Each election is one object. A leader writes it
// again four times a lease, on the condition that it has the ETag that the leader knows (If-Match). A candidate reads
// it as often, and takes it when it has not changed for a whole lease, by its own clock: no clock is compared with
// another. The wall clock only dates requests. A store that finds it wrong tells its own time, by which later requests
// are dated.
//
// # Guarantee
//
// At most one participant has a proven lease at a time, and tokens rise, while the rates of clocks are true within 5 %,
// and the store decides conditions and writes in one step, reads what was written last, and keeps what it has
// acknowledged. Before the first campaign a write whose condition is false finds a store that ignores conditions, which
// is refused. An object that was restored from an older version, or a bucket that was replicated elsewhere, repeats
// tokens: raise the era then.
//
// The first leader of a new object waits for the longest lease ([Config].MaxLease), as does any candidate that finds the
// object deleted.
package s3

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// Bounds and defaults of [Config]. Leases are longer than those of other stores, because each request is paid for.
const (
	DefaultLease    = 30 * time.Second
	DefaultMaxLease = time.Minute
	MinLease        = time.Second
	MaxLease        = register.MaxLease
)

// Config configures a participant. Bucket and Credentials are required; the zero value of each other field is its
// documented default.
type Config struct {
	Bucket string

	// Prefix comes before the name of an election in its object: letters, digits and _-./ only.
	Prefix string

	// Endpoint is the URL of the store, such as https://minio:9000. "" means AWS, in Region.
	Endpoint string

	// Region is the bucket's region. "" means us-east-1, which stores other than AWS often accept.
	Region string

	// VirtualHost puts the bucket into the host of an Endpoint, and not into the path of requests. For AWS the bucket
	// is in the host unless its name has a dot.
	VirtualHost bool

	// Credentials are those of AWS's SDK, such as the Credentials of its config.LoadDefaultConfig.
	Credentials aws.CredentialsProvider

	// Client makes the requests. Nil means one with short timeouts of its own.
	Client *http.Client

	// Lease is how long the others wait for a leader that has fallen silent, 1 s to 1 h. A leader makes four requests
	// in it. It may differ between participants. 0 means 30 s.
	Lease time.Duration

	// MaxLease is the longest Lease that any participant of the election may have. It has to be the same at all of
	// them. 0 means 1 min, or Lease if that is longer.
	MaxLease time.Duration

	// Poll is the mean time between two requests of a candidate that waits, and so how soon it sees a release. 0 means
	// a quarter of Lease.
	Poll time.Duration

	// Era is the era of the tokens, 0 to 65535: see package fence.
	Era uint16

	// Flight is a directory for flight records: a candidate records its last minutes in a subdirectory with the
	// election's name. See docs/electlab.md. If it cannot, as when another candidate records there, it logs that, and
	// the election goes on. "" is none.
	Flight string

	// Logger receives log lines. Nil is silence.
	Logger *slog.Logger
}

// ErrRefused is what an error of [New], [Open] or a campaign matches if it refuses the store, the bucket or the rights
// of the user, and not the arguments.
var ErrRefused = drive.ErrRefused

// New returns the participant id in the election called name. It reads the object once, and returns an error marked by
// [driver.Permanent] that matches [ErrRefused] if the bucket does not exist or may not be read. A campaign does the
// same if the store ignores conditions or may not be written to. A store that does not answer within 5 s is asked
// again.
func New(ctx context.Context, name, id string, cfg Config) (driver.Elector, error) {
	if cfg.Logger != nil { // that of an opener has the name
		cfg.Logger = cfg.Logger.With("election", name)
	}
	e, err := newElector(ctx, name, id, cfg, nil)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// newElector is New. source is for witnesses; nil: there are none.
func newElector(ctx context.Context, name, id string, cfg Config, source *url.URL) (*elector, error) {
	o, err := newObject(name, cfg)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("s3: %w", err))
	}
	if cfg.MaxLease == 0 {
		cfg.MaxLease = max(DefaultMaxLease, cfg.Lease)
	}
	if cfg.Lease = cmp.Or(cfg.Lease, min(DefaultLease, cfg.MaxLease)); cfg.Lease < MinLease {
		return nil, driver.Permanent(fmt.Errorf("s3: a lease of %v; want %v to %v", cfg.Lease, MinLease, MaxLease))
	}
	if err := drive.Begin(ctx, "S3", cfg.Logger, o.begin); err != nil {
		return nil, err
	}
	inner, err := register.New(o, register.Config{
		Config: drive.Config{Name: name, ID: id, Era: uint64(cfg.Era), Logger: cfg.Logger, Source: source, Flight: cfg.Flight},
		Lease:  cfg.Lease, MaxLease: cfg.MaxLease, Poll: cfg.Poll,
		Assumes: "the store decides the condition of a write in one step with the write, reads what was written last, and keeps what it has acknowledged",
	})
	if err != nil {
		return nil, err
	}
	return &elector{Elector: inner, object: o, lease: cfg.Lease, poll: cmp.Or(cfg.Poll, cfg.Lease/4)}, nil
}

// elector is a participant with its object.
type elector struct {
	*register.Elector
	object      *object
	lease, poll time.Duration
}

var _ interface {
	driver.Elector
	driver.Resigner
	driver.Examiner
} = (*elector)(nil)

// Limits implements [driver.Elector].
func (e *elector) Limits() driver.Limits {
	l := e.Elector.Limits()
	l.MinLease = protocol.DefaultDrift().Claim(MinLease)
	return l
}

// Close implements [driver.Elector].
func (e *elector) Close() error {
	err := e.Elector.Close()
	if e.object.owned {
		e.object.http.CloseIdleConnections()
	}
	return err
}
