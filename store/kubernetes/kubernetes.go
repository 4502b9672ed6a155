// Package kubernetes elects over Leases of Kubernetes (coordination.k8s.io/v1), beside candidates of client-go's
// leaderelection. It speaks to the API server by net/http, and needs no module of Kubernetes.
//
// [New] takes the HTTP client of a program, such as rest.HTTPClientFor makes; [Open] finds the cluster by a URL, the
// account of a pod or a kubeconfig. The Lease has the name of the election. A leader writes it again four times a
// lease, and candidates watch it. They take it when it has not changed for a whole lease, by their own clock. Each
// write names the uid and the resource version that it replaces. What elect knows beyond the fields of the Lease is in
// the annotation electd.github.io/election, which counts only while those fields are as they were written with it.
//
// # Guarantee
//
// At most one of elect's participants has a proven lease at a time, and tokens rise, while the rates of clocks are true
// within 5 % and Kubernetes keeps what it has acknowledged. Tokens also rise after the Lease was deleted: those of a
// new Lease begin above its resource version, if that is a number, as etcd's revisions are. After a restore of etcd
// from a backup raise [Config].Era.
//
// Candidates wait for a leader of client-go as long as client-go does. That leader may believe for longer that it
// leads: it counts its lease from answers, and notices a pause only when it next renews. Its writes have no token, so
// nothing refuses them.
//
// The first leader of a new Lease waits for the longest lease ([Config].MaxLease), as does any candidate that finds
// the Lease deleted or emptied by another program.
package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// Config configures a participant. The zero value of each field is its documented default.
type Config struct {
	// Namespace is that of the Lease. "" means default.
	Namespace string

	// Lease is how long the others wait for a leader that has fallen silent, 100 ms to 1 h. It may differ between
	// participants. Other programs see it rounded up to a whole second. 0 means 5 s.
	Lease time.Duration

	// MaxLease is the longest Lease that any participant of the election may have. It has to be the same at all of
	// them. 0 means 15 s, or Lease if that is longer.
	MaxLease time.Duration

	// Poll is the mean time between two reads of a candidate that waits: without a watch, how soon it sees a release.
	// 0 means a quarter of Lease.
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

// ErrRefused is what an error of [New] and [Open] matches if it refuses the cluster, the Lease or the rights of the
// user, and not the arguments.
var ErrRefused = drive.ErrRefused

// New returns the participant id in the election called name, at the API server with that address. The caller keeps
// client, which authenticates requests and has no timeout of its own; a rest.Config of client-go has both:
//
//	client, err := rest.HTTPClientFor(config)
//	server, _, err := rest.DefaultServerUrlFor(config)
//
// New asks for the Lease, and returns an error marked by [driver.Permanent] that matches [ErrRefused] if that is
// refused. A campaign does the same if the rights to create and update it are missing. If the API server does not
// answer within 5 s, New logs that, and the participant asks again before anything else.
func New(ctx context.Context, server *url.URL, client *http.Client, name, id string, cfg Config) (driver.Elector, error) {
	if cfg.Logger != nil { // that of an opener has the name
		cfg.Logger = cfg.Logger.With("election", name)
	}
	own := *client
	own.CheckRedirect = followNone
	e, err := newElector(ctx, &api{server: server, requests: &own, watches: &own}, name, id, cfg, drive.Config{})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// newElector is New. What drive.Config has beyond that is in base.
func newElector(ctx context.Context, at *api, name, id string, cfg Config, base drive.Config) (*elector, error) {
	if cfg.Namespace == "" {
		cfg.Namespace = "default"
	}
	if err := checkName("namespace", cfg.Namespace, 63); err != nil || strings.Contains(cfg.Namespace, ".") {
		return nil, driver.Permanent(fmt.Errorf("kubernetes: namespace %.80q; want small letters, digits and -, at most 63 characters", cfg.Namespace))
	}
	if err := checkName("election name", name, driver.MaxName); err != nil {
		return nil, driver.Permanent(fmt.Errorf("kubernetes: %w", err))
	}
	longest := cfg.MaxLease
	if longest == 0 {
		longest = max(register.DefaultMaxLease, cfg.Lease)
	}
	l := &lease{api: at, namespace: cfg.Namespace, name: name, longest: longest, log: cfg.Logger}
	if err := drive.Begin(ctx, "Kubernetes", cfg.Logger, l.ready); err != nil {
		return nil, err
	}
	base.Name, base.ID, base.Era, base.Logger, base.Flight = name, id, uint64(cfg.Era), cfg.Logger, cfg.Flight
	inner, err := register.New(l, register.Config{
		Config: base, Lease: cfg.Lease, MaxLease: cfg.MaxLease, Poll: cfg.Poll,
		Assumes: "Kubernetes keeps every write that it has acknowledged; a leader of client-go may believe longer that it leads",
	})
	if err != nil {
		return nil, err
	}
	return &elector{inner, l}, nil
}

// elector is a participant with its Lease.
type elector struct {
	*register.Elector
	lease *lease
}

var _ interface {
	driver.Elector
	driver.Resigner
	driver.Examiner
} = (*elector)(nil)

// Examine implements [driver.Examiner].
func (e *elector) Examine(ctx context.Context) ([]driver.Finding, error) { return e.lease.examine(ctx) }
