//go:build linux && cgo

package leases_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/storetest"
	"github.com/electd/elect/store/s3"
	"github.com/electd/elect/test/fencing/server"
)

// objects is where the elections of one case are in a store of S3's protocol, and the era that its operator has given.
type objects struct {
	server *server.S3
	bucket string
	times  string // of the elections
	era    int
}

var s3Buckets atomic.Int64

// newObjects makes a bucket. The environment has the credentials, for the processes of participants, too.
func newObjects(t testing.TB, s *server.S3) *objects {
	t.Helper()
	o := &objects{server: s, bucket: fmt.Sprintf("bucket%d", s3Buckets.Add(1)), times: times}
	s.Bucket(t, o.bucket)
	return o
}

// s3Credentials has the credentials in the environment of this process.
func s3Credentials(t testing.TB) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", server.S3Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.S3Secret)
}

// url is the place as a participant gets it, asked at addr if that is not empty.
func (o *objects) url(addr string) string {
	at := o.server.URL
	if addr != "" {
		at = "http://" + addr
	}
	return fmt.Sprintf("s3://%s/elections?%s&era=%d&endpoint=%s", o.bucket, o.times, o.era, url.QueryEscape(at))
}

// participant opens one in a process of its own, behind a cable that can be cut.
func (o *objects) participant(t testing.TB, name, id string) electtest.Participant {
	t.Helper()
	return behindCable(t, strings.TrimPrefix(o.server.URL, "http://"), o.url, name, id)
}

// elector is a participant of the election "e" in this process.
func (o *objects) elector(t *testing.T, id string) local {
	t.Helper()
	return opened(t, o.url(""), id)
}

// TestS3Conformance has each participant in a process of its own, at a real server.
func TestS3Conformance(t *testing.T) {
	long.Full(t, "it takes minutes; databases are asked by the same suite")
	s3Credentials(t)
	s := server.StartS3(t)
	of := perCase(func(t testing.TB) *objects { return newObjects(t, s) })
	electtest.Run(t, func(t testing.TB, name, id string) electtest.Participant { return of(t).participant(t, name, id) }, electtest.Config{
		Cannot: map[electtest.Fault]string{
			electtest.Lose:  "a connection loses no single answer; the tests of store/internal/register do",
			electtest.Delay: "as Lose",
		},
		Candidates: 5,
		Restart:    restarts(s),
		Recreate: func(t testing.TB) {
			s.Remove(t, of(t).bucket, "elections/conformance")
			of(t).era++
		},
	})
}

// TestS3ByHand has a leader whose object is deleted. It ends, and the next one is not proven before it has. Tokens rise
// for those who have seen the object, and for others after the era was raised.
func TestS3ByHand(t *testing.T) {
	long.Test(t, "it starts a server, and waits for leases")
	s3Credentials(t)
	o := newObjects(t, server.StartS3(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := o.elector(t, "a").campaign(ctx)
	next := make(chan driver.Mandate, 1)
	second := o.elector(t, "b")
	shows(t, ctx, second, "a")
	go func() {
		n, _ := second.Campaign(ctx, driver.Candidacy{Exclusive: true})
		if n != nil && m.Check() == nil {
			t.Error("two are proven")
		}
		next <- n
	}()
	o.server.Remove(t, o.bucket, "elections/e")
	lost(t, ctx, m, driver.ErrSuperseded, driver.ErrExpired)
	released(t, m)
	n := <-next
	if n == nil {
		t.Fatal("the next one does not win")
	}
	if n.Token() <= m.Token() {
		t.Errorf("token %v after %v", n.Token(), m.Token())
	}
	released(t, n)

	o.server.Remove(t, o.bucket, "elections/e")
	fresh := o.elector(t, "c").campaign(ctx)
	if fresh.Token() > n.Token() {
		t.Errorf("token %v after %v, of which a new object knows nothing; say in docs/s3.md why it rises", fresh.Token(), n.Token())
	}
	released(t, fresh)
	o.era++
	again := o.elector(t, "d").campaign(ctx)
	if again.Token() <= n.Token() {
		t.Errorf("token %v of the next era after %v", again.Token(), n.Token())
	}
	released(t, again)
}

// lossy loses answers to writes.
type lossy struct{ *loss }

func (l lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if r.Method == http.MethodPut && !strings.HasSuffix(r.URL.Path, "~probe") && err == nil && l.of(nil) != nil {
		return nil, errors.Join(errLost, resp.Body.Close())
	}
	return resp, err
}

// TestS3Agreement: the store answers as the simulator's register does.
func TestS3Agreement(t *testing.T) {
	long.Test(t, "it starts a server")
	s := server.StartS3(t)
	agrees(t, storetest.Register, func(t *testing.T) (func(string, *loss) driver.Elector, func(protocol.Entry)) {
		o := newObjects(t, s)
		participant := func(id string, l *loss) driver.Elector {
			e, err := s3.New(t.Context(), "e", id, s3.Config{
				Bucket: o.bucket, Prefix: "elections", Endpoint: s.URL, Client: &http.Client{Transport: lossy{l}}, Lease: time.Hour, MaxLease: time.Hour,
				Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: server.S3Key, SecretAccessKey: server.S3Secret}, nil
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		return participant, func(protocol.Entry) { s.Remove(t, o.bucket, "elections/e") }
	})
}

// TestS3Refused: a bucket that does not exist and wrong credentials are refused, each with one line.
func TestS3Refused(t *testing.T) {
	long.Test(t, "it starts a server")
	s3Credentials(t)
	o := newObjects(t, server.StartS3(t))
	refuses(t, strings.Replace(o.url(""), o.bucket, "none", 1), "want a bucket that exists")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	refuses(t, o.url(""), "want the secret of that key")
}

// TestS3Together: of writes at the same time with the same condition, one is carried out.
func TestS3Together(t *testing.T) {
	long.Test(t, "it starts a server")
	s3Credentials(t)
	o := newObjects(t, server.StartS3(t))
	o.times = "lease=1s&max_lease=1s&poll=100ms"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tokens := make(chan driver.Mandate, 8)
	var leads atomic.Int32
	for i := range 8 {
		e := o.elector(t, fmt.Sprintf("n%d", i))
		go func() {
			m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
			if err != nil {
				t.Error(err)
				tokens <- nil
				return
			}
			if m.Check() == nil && leads.Add(1) > 1 {
				t.Error("two are proven")
			}
			<-time.After(50 * time.Millisecond)
			leads.Add(-1)
			_ = m.Release(ctx)
			tokens <- m
		}()
	}
	seen := map[uint64]bool{}
	for range 8 {
		if m := <-tokens; m != nil {
			if seen[uint64(m.Token())] {
				t.Errorf("token %v twice", m.Token())
			}
			seen[uint64(m.Token())] = true
		}
	}
}
