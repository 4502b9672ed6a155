package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/electd/elect/driver"
)

// examine asks for the version, the rights and the Lease.
func (l *lease) examine(ctx context.Context) ([]driver.Finding, error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	f := driver.Finding{What: "version", Means: "Leases are there from Kubernetes 1.14 on"}
	if err := l.do(ctx, http.MethodGet, "version", nil, nil, &version); isRefusal(err, http.StatusForbidden, http.StatusUnauthorized, http.StatusNotFound) {
		f.Value, f.Means = "not told", plain(err).Error()
	} else if err != nil {
		return nil, err
	} else {
		f.Value = fmt.Sprintf("Kubernetes %.60s", version.GitVersion)
	}
	o, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	found := []driver.Finding{f, l.judge(o), l.rights(ctx)}
	if o != nil && o.number() == 0 {
		found = append(found, driver.Finding{
			What: "resource version", Value: fmt.Sprintf("%.40s", o.version), Means: "it is not a number, so tokens may repeat after the Lease was deleted; raise era then",
		})
	}
	return found, nil
}

// judge says what the Lease means, which is nil if there is none.
func (l *lease) judge(o *object) driver.Finding {
	f := driver.Finding{What: "Lease " + l.namespace + "/" + l.name}
	if o == nil {
		f.Value, f.Means = "none", fmt.Sprintf("the first candidate makes it, and leads after the longest lease, %v", l.longest)
		return f
	}
	n := &o.native
	if err := n.managed(); err != nil {
		f.Value, f.Wrong, f.Means = "managed", true, err.Error()
		return f
	}
	switch _, _, current := o.record(); {
	case current && n.HolderIdentity == "":
		f.Value, f.Means = "free", "the next candidate takes it at once"
	case current:
		f.Value, f.Means = fmt.Sprintf("held by %.160s", n.HolderIdentity), "a participant of elect"
	case n.HolderIdentity == "":
		f.Value, f.Means = "emptied", fmt.Sprintf("another program has let it go, and elect waits for the longest lease, %v; want ReleaseOnCancel off in client-go", l.longest)
	default:
		wait := time.Duration(n.LeaseDurationSeconds) * time.Second
		f.Value = fmt.Sprintf("held by %.160s", n.HolderIdentity)
		f.Means = fmt.Sprintf("a candidate of another program, such as client-go's: it may act after its lease of %v, without a token; fence, or replace it", wait)
	}
	return f
}

// rights says whether the user can lead, and watch.
func (l *lease) rights(ctx context.Context) driver.Finding {
	f := driver.Finding{What: "rights", Value: "enough", Means: "the user may get, create, update and watch the Lease"}
	missing, err := l.missing(ctx, "create", "update", "watch")
	switch {
	case err != nil:
		f.Value, f.Means = "not known", plain(err).Error()
	case len(missing) == 1 && missing[0] == "watch":
		f.Value, f.Means = "no watch", "candidates only poll, so they see a release later; want the verb watch, as in deploy/kubernetes/role.yaml"
	case len(missing) > 0:
		f.Value, f.Wrong, f.Means = "missing", true, fmt.Sprintf("the user may not %s the Lease; want a Role such as deploy/kubernetes/role.yaml", strings.Join(missing, " and "))
	}
	return f
}
