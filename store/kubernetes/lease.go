package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/register"
)

// lease is the Lease of one election.
type lease struct {
	*api
	namespace, name string
	longest         time.Duration // Config.MaxLease
	log             *slog.Logger  // nil is silence
	checked         atomic.Bool
	admitted        atomic.Bool

	mu     sync.Mutex
	latest []*object // what was read or written last, each of which a write may replace
	tenure string    // of another program, seen last
	from   uint64    // the resource version with which that was seen first
}

var _ interface {
	register.Sighter
	register.Admitter
} = (*lease)(nil)

// keep is how many versions of a Lease are kept for a write. Another one is read again.
const keep = 4

func (l *lease) path() string {
	return "apis/" + group + "/v1/namespaces/" + l.namespace + "/leases"
}

func (l *lease) own() string { return l.path() + "/" + l.name }

// get reads the Lease from etcd, not from a cache: it names no resource version. It returns nil if there is none.
func (l *lease) get(ctx context.Context) (*object, error) {
	o := &object{}
	err := l.do(ctx, http.MethodGet, l.own(), nil, nil, o)
	if r, ok := errors.AsType[*refusal](err); ok && r.Code == http.StatusNotFound && r.Details.Kind == "leases" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// kept is the record of a Lease.
func (l *lease) kept(o *object) (register.Kept, error) {
	if err := o.native.managed(); err != nil {
		return register.Kept{}, err
	}
	k := register.Kept{Version: o.id(), Store: o.uid}
	text, _, current := o.record()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest = append(l.latest, o); len(l.latest) > keep {
		l.latest = l.latest[1:]
	}
	if !current {
		if tenure := o.tenure(); tenure != l.tenure {
			l.tenure, l.from = tenure, o.number()
		}
		k.Text = o.foreign(l.from, l.longest)
		k.Deaf = "is a candidate of another program, which takes no requests from elect"
		return k, nil
	}
	s, err := register.Summarize(text)
	if err == nil && s.Store != o.uid {
		// No participant of elect has led since the Lease was made, by elect or from a manifest. Before that there may
		// have been another, with greater counts.
		text, err = register.Raised(text, o.number())
	}
	k.Text = text
	return k, err
}

// Read implements [register.Register].
func (l *lease) Read(ctx context.Context) (register.Kept, error) {
	if err := l.ready(ctx); err != nil {
		return register.Kept{}, err
	}
	o, err := l.get(ctx)
	if o == nil || err != nil {
		return register.Kept{}, err
	}
	return l.kept(o)
}

// Write implements [register.Register].
func (l *lease) Write(ctx context.Context, version, text string) (register.Kept, error) {
	if version == "" {
		return l.create(ctx, text)
	}
	old, err := l.replaced(ctx, version)
	if err != nil {
		return register.Kept{}, err
	}
	body, err := with(old, l.namespace, l.name, text, time.Now())
	if err != nil {
		return register.Kept{}, fmt.Errorf("%w: %w", register.ErrNotSent, err)
	}
	// The uid is in the metadata: without it, a PUT makes a Lease that was deleted, and so a holder.
	o := &object{}
	if err = l.do(ctx, http.MethodPut, l.own(), nil, body, o); isRefusal(err, http.StatusNotFound) {
		err = register.ErrConflict
	}
	if err != nil {
		return register.Kept{}, err
	}
	if _, _, current := o.record(); !current {
		return register.Kept{}, errors.New("what was written was changed on its way, as by an admission webhook; want none that changes Leases")
	}
	return l.kept(o)
}

// create makes the Lease. Its answer is a conflict, so that the machine reads it: with the count that follows from its
// resource version, which is known only now.
func (l *lease) create(ctx context.Context, text string) (register.Kept, error) {
	body, err := with(nil, l.namespace, l.name, text, time.Now())
	if err != nil {
		return register.Kept{}, fmt.Errorf("%w: %w", register.ErrNotSent, err)
	}
	switch err := l.do(ctx, http.MethodPost, l.path(), nil, body, nil); {
	case isRefusal(err, http.StatusNotFound): // it may be made
		return register.Kept{}, fmt.Errorf("%w; want a namespace that exists: kubernetes://NAMESPACE", err)
	case err != nil:
		return register.Kept{}, err
	}
	return register.Kept{}, register.ErrConflict
}

// replaced is the version that a write replaces, with what is not elect's.
func (l *lease) replaced(ctx context.Context, version string) (*object, error) {
	l.mu.Lock()
	for _, o := range l.latest {
		if o.id() == version {
			l.mu.Unlock()
			return o, nil
		}
	}
	l.mu.Unlock()
	o, err := l.get(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", register.ErrNotSent, err)
	case o == nil || o.id() != version:
		return nil, register.ErrConflict
	}
	return o, nil
}

// ready asks for the Lease once, and returns an error marked by [driver.Permanent] if that is refused.
func (l *lease) ready(ctx context.Context) error {
	if l.checked.Load() {
		return nil
	}
	o, err := l.get(ctx)
	switch {
	case isRefusal(err, http.StatusUnauthorized):
		return driver.Permanent(fmt.Errorf("%w; want a token or a certificate that the cluster accepts", plain(err)))
	case isRefusal(err, http.StatusForbidden):
		return driver.Permanent(fmt.Errorf("%w; want a Role with get, create, update and watch on leases, as in deploy/kubernetes/role.yaml", plain(err)))
	case isRefusal(err, http.StatusNotFound):
		return driver.Permanent(fmt.Errorf("%w; want the address of a Kubernetes that has Leases, from 1.14 on", plain(err)))
	case err != nil:
		return untrusted(err)
	case o != nil && o.native.managed() != nil:
		return o.native.managed()
	}
	l.checked.Store(true)
	return nil
}

// plain is the refusal without what it means for a write.
func plain(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	return err
}

// Admit implements [register.Admitter].
func (l *lease) Admit(ctx context.Context) error {
	if l.admitted.Load() {
		return nil
	}
	missing, err := l.missing(ctx, "create", "update")
	if err == nil && len(missing) > 0 {
		err = driver.Permanent(fmt.Errorf("the user may not %s leases in the namespace %s; want a Role such as deploy/kubernetes/role.yaml", strings.Join(missing, " and "), l.namespace))
	}
	l.admitted.Store(err == nil)
	return err
}

// missing returns which of these rights the user lacks. It tries them, and changes nothing: writes are dry runs, with a
// uid that no Lease has.
func (l *lease) missing(ctx context.Context, verbs ...string) (lacks []string, err error) {
	none := func(metadata map[string]string) any {
		metadata["namespace"], metadata["name"] = l.namespace, l.name
		return map[string]any{"apiVersion": group + "/v1", "kind": "Lease", "metadata": metadata}
	}
	dry := url.Values{"dryRun": {"All"}}
	for _, verb := range verbs {
		switch verb {
		case "create":
			err = l.do(ctx, http.MethodPost, l.path(), dry, none(map[string]string{}), nil)
		case "update":
			err = l.do(ctx, http.MethodPut, l.own(), dry, none(map[string]string{"uid": "none", "resourceVersion": "1"}), nil)
		case "watch":
			err = l.watch(ctx, l.path(), l.watching("", time.Second), func(event) error { return register.ErrConflict })
		}
		_, refused := errors.AsType[*refusal](err)
		switch {
		case isRefusal(err, http.StatusForbidden):
			lacks = append(lacks, verb)
		case err != nil && !refused && !errors.Is(err, register.ErrConflict):
			return nil, err
		}
	}
	return lacks, nil
}

// Times of a watch.
const (
	minRetry  = time.Second
	maxRetry  = time.Minute
	watchTime = 5 * time.Minute // at least
)

// Sight implements [register.Sighter].
func (l *lease) Sight(ctx context.Context, seen func(register.Kept)) {
	from, told := "", false
	for pause := minRetry; ctx.Err() == nil; pause = min(2*pause, maxRetry) {
		err := l.follow(ctx, &from, func(k register.Kept) {
			pause = minRetry
			seen(k)
		})
		switch {
		case ctx.Err() != nil:
			return
		case isRefusal(err, http.StatusGone): // what follows that version was forgotten: begin with what is there now
			from = ""
		case err == nil:
			pause = minRetry
		case !told && l.log != nil:
			told = true
			l.log.Warn("changes of the Lease cannot be watched, so participants only poll", "error", err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
		}
	}
}

// follow is one watch, of what comes after a resource version; "" is what is there now, and what comes then.
func (l *lease) follow(ctx context.Context, from *string, seen func(register.Kept)) error {
	return l.watch(ctx, l.path(), l.watching(*from, watchTime+rand.N(watchTime)), func(e event) error {
		if e.Type == "BOOKMARK" {
			var mark struct {
				Metadata struct {
					ResourceVersion string `json:"resourceVersion"`
				} `json:"metadata"`
			}
			if json.Unmarshal(e.Object, &mark) == nil && mark.Metadata.ResourceVersion != "" {
				*from = mark.Metadata.ResourceVersion
			}
			return nil
		}
		o := &object{}
		if err := json.Unmarshal(e.Object, o); err != nil {
			return fmt.Errorf("an event of the watch does not parse: %w", err)
		}
		*from = o.version
		if e.Type == "DELETED" {
			seen(register.Kept{})
			return nil
		}
		k, err := l.kept(o)
		if err != nil {
			k = register.Kept{} // a read tells what is wrong
		}
		seen(k)
		return nil
	})
}

// watching is the query of a watch that lasts for a time.
func (l *lease) watching(from string, d time.Duration) url.Values {
	query := url.Values{
		"watch": {"true"}, "allowWatchBookmarks": {"true"}, "fieldSelector": {"metadata.name=" + l.name},
		"timeoutSeconds": {strconv.Itoa(int(d / time.Second))},
	}
	if from != "" {
		query.Set("resourceVersion", from)
	}
	return query
}
