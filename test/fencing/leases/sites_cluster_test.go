//go:build linux && cgo

package leases_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/go-zookeeper/zk"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/electd/elect/test/fencing/server"
)

var errNoLeader = errors.New("the servers have no leader")

// newZooKeeperSites starts an ensemble of ZooKeeper.
func newZooKeeperSites(t *testing.T) func(t *testing.T) *site {
	servers := server.StartZooKeepers(t, 3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	return func(t *testing.T) *site {
		z := newZnodes(t, servers[0])
		z.times = "lease=4s&max_hold=2s&poll=1s"
		v, heal := z.byHand(t)
		return &site{
			addrs: addrs, url: func(addrs []string) string { return z.url(strings.Join(addrs, ",")) },
			victims: []victim{memberFaults(t, "ensemble", servers, server.RunZooKeepers, func() (*server.ZooKeeper, error) {
				if leader, _ := ensembleLeader(servers); leader != nil {
					return leader, nil
				}
				return nil, errNoLeader
			}), v},
			heal: heal,
		}
	}
}

// within does what cannot be cancelled. What is not answered in time may be done later.
func within(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// byHand is what is done to an election's znodes by hand, and what undoes it.
func (z *znodes) byHand(t *testing.T) (victim, func(context.Context) error) {
	queue := z.prefix + "/e"
	entries := func() ([]string, error) {
		children, _, err := z.client.Children(queue)
		slices.SortFunc(children, func(a, b string) int { return strings.Compare(number(a), number(b)) })
		if err == nil && len(children) == 0 {
			err = errors.New("the election has no entry")
		}
		return children, err
	}
	own := func() error { // deletes the candidates that this program has made
		children, err := entries()
		for _, c := range children {
			_, stat, err := z.client.Exists(queue + "/" + c)
			if err == nil && stat != nil && stat.EphemeralOwner == z.client.SessionID() {
				err = z.client.Delete(queue+"/"+c, -1)
			}
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
		return err
	}
	heal := func(ctx context.Context) error { return within(ctx, own) }
	first := func(name string, do func(entry string) error) fault {
		return once(t, name, func(ctx context.Context) error {
			return within(ctx, func() error {
				children, err := entries()
				if err != nil {
					return err
				}
				return do(queue + "/" + children[0])
			})
		}, hand(t, heal))
	}
	const mine = zk.FlagEphemeral
	return victim{"znodes", []fault{
		first("the leader's deleted", func(entry string) error { return z.client.Delete(entry, -1) }),
		first("the leader's made again by another program", func(entry string) error {
			_, err := z.client.Multi(&zk.DeleteRequest{Path: entry, Version: -1}, &zk.CreateRequest{Path: entry, Flags: mine, Acl: zk.WorldACL(zk.PermAll)})
			return err
		}),
		first("the leader's edited to nonsense", func(entry string) error {
			_, err := z.client.Set(entry, []byte("\xff nonsense\nnonsense"), -1)
			return err
		}),
		first("the mark edited to nonsense", func(string) error {
			_, err := z.client.Set(queue, []byte("nonsense"), -1)
			return err
		}),
		first("all deleted", func(string) error {
			children, err := entries()
			for _, c := range children {
				err = errors.Join(err, z.client.Delete(queue+"/"+c, -1))
			}
			return errors.Join(err, z.client.Delete(queue, -1))
		}),
		first("beside another program's, which stands and dies", func(string) error {
			_, err := z.client.Create(queue+"/_c_00000000-0000-4000-8000-000000000000-latch-", nil, mine|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			return err
		}),
	}}, heal
}

// newNATSSites starts a cluster of NATS, whose servers can be cut from each other.
func newNATSSites(t *testing.T) func(t *testing.T) *site {
	members := server.StartNATSCluster(t, 3)
	var addrs []string
	for _, m := range members {
		addrs = append(addrs, m.Addr)
	}
	return func(t *testing.T) *site {
		b := newBucket(t, members[0])
		leader := func() (*server.NATS, error) {
			if leader, _, _ := bucketLeader(t, members, b.name); leader != nil {
				return leader, nil
			}
			return nil, errNoLeader
		}
		cut := func(m *server.NATS) func() error {
			m.Cut(true)
			return func() error { m.Cut(false); return nil }
		}
		servers := memberFaults(t, "cluster", members, server.StartNATSServers, leader)
		servers.faults = append(servers.faults, fault{"one member cut from the others", func(r *rand.Rand) (func() error, error) {
			return cut(members[r.IntN(len(members))]), nil
		}}, fault{"leader cut from the others", func(*rand.Rand) (func() error, error) {
			m, err := leader()
			if err != nil {
				return nil, err
			}
			return cut(m), nil
		}}, once(t, "leader changed", func(ctx context.Context) error {
			_, err := b.client.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN.KV_"+b.name, nil)
			return err
		}, nil))
		v, heal := b.byHand(t)
		return &site{
			addrs: addrs, url: func(addrs []string) string { return b.url(strings.Join(addrs, ",")) },
			victims: []victim{servers, v}, heal: heal,
		}
	}
}

// byHand is what is done to an election's key by hand, and what undoes it.
func (b *bucket) byHand(t *testing.T) (victim, func(context.Context) error) {
	last := func(ctx context.Context) (*nats.RawStreamMsg, error) { // by the bucket's leader, unlike jetstream.KeyValue
		js, err := b.client.Conn().JetStream()
		if err != nil {
			return nil, err
		}
		m, err := js.GetLastMsg("KV_"+b.name, "$KV."+b.name+".e.>", nats.Context(ctx))
		if err == nil && len(m.Header) > 0 {
			err = errors.New("the key was deleted")
		}
		return m, err
	}
	edited, heal := edits(t, func(ctx context.Context) (string, error) {
		m, err := last(ctx)
		if err != nil {
			return "", err
		}
		return string(m.Data), nil
	}, func(ctx context.Context, old, with string) (bool, error) {
		m, err := last(ctx)
		if err != nil || string(m.Data) != old {
			return false, err
		}
		_, err = b.client.Publish(ctx, m.Subject, []byte(with), jetstream.WithExpectLastSequencePerSubject(m.Sequence), jetstream.WithRetryAttempts(0))
		if refused, is := errors.AsType[*jetstream.APIError](err); is && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return false, nil
		}
		return err == nil, err
	})
	key := func(name string, do func(ctx context.Context, kv jetstream.KeyValue, key string) error) fault {
		return once(t, name, func(ctx context.Context) error {
			kv, err := b.client.KeyValue(ctx, b.name)
			if err != nil {
				return err
			}
			m, err := last(ctx)
			if err != nil {
				return err
			}
			return do(ctx, kv, strings.TrimPrefix(m.Subject, "$KV."+b.name+"."))
		}, nil)
	}
	return victim{"key", []fault{
		edited,
		key("deleted", func(ctx context.Context, kv jetstream.KeyValue, key string) error { return kv.Delete(ctx, key) }),
		key("purged", func(ctx context.Context, kv jetstream.KeyValue, key string) error { return kv.Purge(ctx, key) }),
		once(t, "purged with its bucket", func(ctx context.Context) error {
			s, err := b.client.Stream(ctx, "KV_"+b.name)
			if err != nil {
				return err
			}
			return s.Purge(ctx)
		}, nil),
	}}, heal
}

// newS3Sites starts a server of S3's protocol.
func newS3Sites(t *testing.T) func(t *testing.T) *site {
	s := server.StartS3(t)
	file := filepath.Join(t.TempDir(), "credentials") // a parallel test has no environment of its own
	text := "[default]\naws_access_key_id = " + server.S3Key + "\naws_secret_access_key = " + server.S3Secret + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) *site {
		o := newObjects(t, s)
		edited, heal := edits(t, func(ctx context.Context) (string, error) {
			text, _, err := o.ask(ctx, http.MethodGet, "", "")
			return text, err
		}, func(ctx context.Context, old, with string) (bool, error) {
			is, tag, err := o.ask(ctx, http.MethodGet, "", "")
			if err == nil && is == old {
				_, tag, err = o.ask(ctx, http.MethodPut, tag, with)
				return tag != "", err
			}
			return false, err
		})
		return &site{
			addrs: []string{strings.TrimPrefix(s.URL, "http://")}, url: func(addrs []string) string {
				return o.url(addrs[0]) + "&credentials_file=" + url.QueryEscape(file)
			},
			// A deleted object makes tokens repeat.
			victims: []victim{hurts(t, "server", func() process { return s }), {"object", []fault{edited}}}, heal: heal,
		}
	}
}

// ask makes a request for the election's object, and returns what it is and its ETag. A write whose ETag does not match has
// none.
func (o *objects) ask(ctx context.Context, method, match, body string) (text, tag string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, o.server.URL+"/"+o.bucket+"/elections/e", strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	if match != "" {
		r.Header.Set("If-Match", match)
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	r.Header.Set("X-Amz-Content-Sha256", hash)
	user := aws.Credentials{AccessKeyID: server.S3Key, SecretAccessKey: server.S3Secret}
	if err := v4.NewSigner().SignHTTP(ctx, user, r, hash, "s3", "us-east-1", time.Now()); err != nil {
		return "", "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", "", err
	}
	defer resp.Body.Close()
	says, err := io.ReadAll(resp.Body)
	switch {
	case err == nil && resp.StatusCode == http.StatusPreconditionFailed:
		return "", "", nil
	case err == nil && resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("%d: %s", resp.StatusCode, says)
	}
	return string(says), resp.Header.Get("ETag"), err
}

// newConsulSites starts a cluster of Consul. Each worker asks one of its servers.
func newConsulSites(t *testing.T) func(t *testing.T) *site {
	members := server.StartConsulCluster(t, 3)
	var addrs []string
	for _, m := range members {
		addrs = append(addrs, m.Addr)
	}
	return func(t *testing.T) *site {
		p := newPrefix(members[0])
		v, heal := p.byHand(t)
		return &site{
			addrs: addrs, url: func(addrs []string) string { return p.url(addrs[0]) },
			victims: []victim{memberFaults(t, "cluster", members, server.StartConsuls, func() (*server.Consul, error) {
				ctx, cancel := context.WithTimeout(t.Context(), byHand)
				defer cancel()
				if leader, _ := consulLeader(ctx, members); leader != nil {
					return leader, nil
				}
				return nil, errNoLeader
			}), v},
			heal: heal,
		}
	}
}

// byHand is what is done to an election's key by hand, and what undoes it.
func (p *prefix) byHand(t *testing.T) (victim, func(context.Context) error) {
	type pair struct {
		Value       []byte
		ModifyIndex uint64
	}
	ask := func(ctx context.Context, method, query, body string) (says string, err error) {
		status, says, err := p.consul.Ask(ctx, method, "/v1/kv/"+p.path+"/e?"+query, body)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, says)
		}
		return says, err
	}
	get := func(ctx context.Context) (pair, error) {
		says, err := ask(ctx, http.MethodGet, "consistent", "")
		if err != nil {
			return pair{}, err
		}
		var all []pair
		if err := json.Unmarshal([]byte(says), &all); err != nil || len(all) != 1 {
			return pair{}, fmt.Errorf("%s: %v; want a key", says, err)
		}
		return all[0], nil
	}
	edited, heal := edits(t, func(ctx context.Context) (string, error) {
		is, err := get(ctx)
		return string(is.Value), err
	}, func(ctx context.Context, old, with string) (bool, error) {
		is, err := get(ctx)
		if err != nil || string(is.Value) != old {
			return false, err
		}
		says, err := ask(ctx, http.MethodPut, fmt.Sprint("cas=", is.ModifyIndex), with)
		return strings.HasPrefix(says, "true"), err
	})
	return victim{"key", []fault{
		edited,
		once(t, "deleted", func(ctx context.Context) error {
			_, err := ask(ctx, http.MethodDelete, "", "")
			return err
		}, nil),
	}}, heal
}

// newKubernetesSites starts a kube-apiserver over an etcd.
func newKubernetesSites(t *testing.T) func(t *testing.T) *site {
	k := server.StartKubernetes(t)
	return func(t *testing.T) *site {
		namespace := fmt.Sprintf("storm%d", prefixes.Add(1))
		k.Do(t, http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace}})
		servers := hurts(t, "kube-apiserver", func() process { return k })
		for _, f := range hurts(t, "etcd", func() process { return k.Etcd }).faults { // not at the same time: one starts by the other
			servers.faults = append(servers.faults, fault{"of which etcd is " + f.name, f.begin})
		}
		own := strings.Replace(leasesPath, "default", namespace, 1) + "/e"
		edit := func(name string, do func(lease map[string]any)) fault {
			return once(t, name, func(ctx context.Context) error {
				lease, err := k.Ask(ctx, http.MethodGet, own, nil)
				if err != nil {
					return err
				}
				do(lease)
				_, err = k.Ask(ctx, http.MethodPut, own, lease)
				return err
			}, nil)
		}
		return &site{
			addrs: []string{k.Addr},
			url: func(addrs []string) string {
				return strings.Replace(leaseURL(t, k, "admin", addrs[0], times), "default", namespace, 1)
			},
			victims: []victim{servers, {"Lease", []fault{
				once(t, "deleted", func(ctx context.Context) error {
					_, err := k.Ask(ctx, http.MethodDelete, own, nil)
					return err
				}, nil),
				edit("emptied", func(lease map[string]any) { lease["spec"].(map[string]any)["holderIdentity"] = "" }),
				edit("seized", func(lease map[string]any) { lease["spec"].(map[string]any)["holderIdentity"] = "somebody" }),
				edit("stripped", func(lease map[string]any) { delete(lease["metadata"].(map[string]any), "annotations") }),
			}}},
		}
	}
}
