package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/driver"
)

// examine asks each member of etcd for its state. The API does not have the timeouts.
func (s *store) examine(ctx context.Context) ([]driver.Finding, error) {
	asking, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer of a majority within %v", patience))
	defer cancel()
	members, err := s.client.MemberList(asking)
	if err != nil && asking.Err() != nil {
		err = context.Cause(asking)
	}
	if err != nil {
		return s.alone(ctx, err)
	}
	voters := 0
	for _, m := range members.Members {
		if !m.IsLearner {
			voters++
		}
	}
	found := []driver.Finding{{
		What: "members", Value: fmt.Sprint(voters), Means: fmt.Sprintf("etcd answers while %d of %d do", voters/2+1, voters),
	}}
	for _, m := range members.Members {
		f := driver.Finding{What: "member " + m.Name}
		if len(m.ClientURLs) == 0 {
			f.Value, f.Means = "not started", "its version is not known"
			f.Wrong = s.fixed
			found = append(found, f)
			continue
		}
		asking, cancel := context.WithTimeoutCause(ctx, time.Second, errors.New("it does not answer within 1s"))
		r, err := s.client.Status(asking, m.ClientURLs[0])
		if err != nil && asking.Err() != nil {
			err = context.Cause(asking)
		}
		if cancel(); err != nil {
			f.Value, f.Means = "no answer", err.Error()
			f.Wrong = s.fixed
			found = append(found, f)
			continue
		}
		found = append(found, s.judge(f, r))
	}
	return append(found, driver.Finding{
		What: "heartbeat, election timeout", Value: "not told", Means: "the API of etcd does not tell them; compare --election-timeout of the servers with server_election of the URL, which must not be less",
	}), nil
}

// patience is how long etcd has to list its members, which takes a majority.
const patience = 3 * time.Second

// alone asks each endpoint of the URL, after they did not list the members. It fails if none answers.
func (s *store) alone(ctx context.Context, cause error) ([]driver.Finding, error) {
	var found []driver.Finding
	for _, at := range s.client.Endpoints() {
		asking, cancel := context.WithTimeout(ctx, patience/time.Duration(len(s.client.Endpoints())))
		r, err := s.client.Status(asking, at)
		cancel()
		if err == nil {
			found = append(found, s.judge(driver.Finding{What: "endpoint " + at}, r))
		}
	}
	if len(found) == 0 {
		return nil, cause
	}
	return append(found, driver.Finding{What: "members", Value: "not listed", Wrong: true, Means: "nobody can be elected: " + cause.Error()}), nil
}

// judge says what the answer of a member means.
func (s *store) judge(f driver.Finding, r *clientv3.StatusResponse) driver.Finding {
	f.Value = "version " + r.Version
	switch {
	case len(r.Errors) > 0:
		f.Wrong, f.Means = true, "it reports "+strings.Join(r.Errors, ", ")
	case r.Leader == 0:
		f.Wrong, f.Means = true, "it knows no leader of etcd, and takes no writes"
	case isFixed(r.Version):
		f.Means = "it asks a majority before it ends or renews a lease (issue 15247), so servers_fixed=on is possible if all do"
	case s.fixed:
		f.Wrong, f.Means = true, "it may end a live lease or renew a dead one (issue 15247), and servers_fixed=on is given; want 3.4.31, 3.5.13 or 3.6.0, or a later one"
	default:
		f.Means = "it may end a live lease or renew a dead one (issue 15247); the hold-off protects, so leave servers_fixed off"
	}
	return f
}
