package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/register"
)

// apis are those of the URLs of this process. It is a variable of the package because elections are opened by
// independent calls, with no common argument.
var apis pool.Pool[access, *api]

// Open is the opener of URLs such as
//
//	kubernetes://jobs?lease=15s
//
// The host is the namespace; without one it is that of the pod, or of the context. The name of the election is that of
// the Lease. The parameters are
//
//	lease=5s  max_lease=15s  poll=1s  era=N  flight=DIR
//
// as in [Config], and
//
//	kubeconfig=FILE  context=NAME
//
// Without these, the cluster is that of KUBECONFIG, or the one in which the process is a pod, or that of
// ~/.kube/config.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	cfg, a, err := parse(t.URL, os.Getenv, account)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("kubernetes: %w", err))
	}
	cfg.Logger = t.Logger
	if t.Logger != nil && strings.HasPrefix(a.server, "http:") && (a.token != "" || a.tokenFile != "") {
		t.Logger.Warn("the token for Kubernetes is sent without TLS; want a server with https")
	}
	shared, done, err := apis.Use(*a, func() (*api, func() error, error) { return a.open() })
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("kubernetes: %w", err))
	}
	e, err := newElector(ctx, shared, t.Name, t.ID, cfg, drive.Config{Source: t.URL})
	if err != nil {
		return nil, errors.Join(err, done())
	}
	e.AtClose(done)
	return e, nil
}

// Witness is a supervise.Witness for leaders whose election was opened by [Open]: it frees the dead leader's Lease, so
// that the next one need not wait. It connects when it speaks, by the URL of the leader and the same files and
// environment.
func Witness(_ context.Context, testament []byte) (speak func(context.Context) error, err error) {
	return drive.Witness(testament, func(ctx context.Context, d *drive.Deceased) error {
		cfg, a, err := parse(d.URL, os.Getenv, account)
		if err != nil {
			return err
		}
		own, done, err := a.open()
		if err != nil {
			return err
		}
		return errors.Join(register.Free(ctx, &lease{api: own, namespace: cfg.Namespace, name: d.Name}, d), done())
	})
}

// parse reads a URL, and finds the cluster.
func parse(u *url.URL, env func(string) string, account string) (cfg Config, a *access, err error) {
	if path := strings.Trim(u.Path, "/"); u.User != nil || u.Opaque != "" || path != "" || u.Port() != "" || u.Fragment != "" {
		return cfg, nil, errors.New("the URL has more than a namespace; want kubernetes://NAMESPACE?kubeconfig=FILE")
	}
	var file, name string
	if err := drive.ParseParameters(u.RawQuery,
		drive.Duration("lease", &cfg.Lease), drive.Duration("max_lease", &cfg.MaxLease), drive.Duration("poll", &cfg.Poll), drive.Era(&cfg.Era),
		drive.Text("flight", &cfg.Flight), drive.Text("kubeconfig", &file), drive.Text("context", &name)); err != nil {
		return cfg, nil, err
	}
	found, err := find(file, name, env, account)
	cfg.Namespace = cmp.Or(u.Host, found.namespace, "default")
	return cfg, &found, err
}
