package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/register"
)

// key is one election in Consul.
type key struct {
	*client
	Config
	checked, admitted atomic.Bool
}

var _ interface {
	register.Watcher
	register.Admitter
} = (*key)(nil)

// pair is a key as Consul shows it.
type pair struct {
	Key                             string
	Value                           []byte
	Flags, CreateIndex, ModifyIndex uint64
	Session                         string
}

// flagOfLocks marks the keys of Consul's own locks, as api.Lock and consul lock make them.
const flagOfLocks = 0x2ddccbc058a50c18

// query is that of each request: where the key is.
func (k *key) query(more ...string) url.Values {
	q := url.Values{}
	for _, p := range [][2]string{{"dc", k.Datacenter}, {"ns", k.Namespace}, {"partition", k.Partition}} {
		if p[1] != "" {
			q.Set(p[0], p[1])
		}
	}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q
}

// get returns the key, or nil if there is none, and the index from which a blocking query waits.
func (k *key) get(ctx context.Context, more ...string) (*pair, uint64, error) {
	a, err := k.do(ctx, http.MethodGet, "kv/"+k.Key, k.query(more...), nil, http.StatusOK, http.StatusNotFound)
	if err != nil {
		return nil, 0, err
	}
	index, err := strconv.ParseUint(a.index, 10, 64)
	if err != nil { // a proxy's 404 is not the absence of the key
		return nil, 0, fmt.Errorf("the answer %d has no X-Consul-Index; want the address of an agent of Consul", a.status)
	}
	if a.status == http.StatusNotFound {
		return nil, index, nil
	}
	var all []pair
	if err := json.Unmarshal(a.body, &all); err != nil || len(all) != 1 || all[0].Key != k.Key || all[0].ModifyIndex == 0 {
		return nil, 0, errors.New("the answer is not that of Consul for one key; want the address of an agent of Consul")
	}
	return &all[0], index, nil
}

// errLocked is the error for a key of somebody else's lock.
func (k *key) errLocked(p *pair) error {
	is := fmt.Sprintf("is held by session %.40s", p.Session)
	switch {
	case p.Session != "":
	case p.Flags == flagOfLocks:
		is = fmt.Sprintf("has the flag of Consul's own locks, %#x", uint64(flagOfLocks))
	default:
		return nil
	}
	return driver.Permanent(fmt.Errorf("the key %s %s: api.Lock and consul lock know no lease of elect's; want a key of its own (key=KEY)", k.Key, is))
}

// version is that of a text. A cluster that was built anew from a snapshot may give an index out again, so the text is
// part of it.
func version(index uint64, text string) string { return strconv.FormatUint(index, 10) + "=" + text }

// indexOf is the ModifyIndex in a version, 0 in what is none. It is that of Raft's log: it is above those of all keys that
// were deleted.
func indexOf(version string) uint64 {
	number, _, _ := strings.Cut(version, "=")
	index, _ := strconv.ParseUint(number, 10, 64)
	return index
}

// Read implements [register.Register]. Consul's servers tell no incarnation.
func (k *key) Read(ctx context.Context) (register.Kept, error) {
	kept, err := k.read(ctx)
	if !k.checked.Load() {
		err = k.settle(&k.checked, "read", err)
	}
	return kept, err
}

func (k *key) read(ctx context.Context) (register.Kept, error) {
	p, _, err := k.get(ctx, "consistent", "")
	if err != nil || p == nil {
		return register.Kept{}, err
	}
	if err := k.errLocked(p); err != nil {
		return register.Kept{}, err
	}
	return register.Kept{Text: string(p.Value), Version: version(p.ModifyIndex, string(p.Value))}, nil
}

// operation is one of a transaction.
type operation struct {
	KV struct {
		Verb, Key string
		Value     []byte
		Index     uint64
		Namespace string `json:",omitempty"`
		Partition string `json:",omitempty"`
	}
}

// Write implements [register.Register]. An endpoint of its own for one key would tell no ModifyIndex.
func (k *key) Write(ctx context.Context, old, text string) (register.Kept, error) {
	var index uint64 // 0: if there is no key
	if old != "" {
		if index = indexOf(old); index == 0 {
			return register.Kept{}, fmt.Errorf("%w: version %.20q", register.ErrNotSent, old)
		}
	}
	now, err := k.swap(ctx, index, text)
	if err != nil {
		return register.Kept{}, err
	}
	return register.Kept{Text: text, Version: version(now, text)}, nil
}

// swap replaces the key if it has that ModifyIndex, and returns the new one.
func (k *key) swap(ctx context.Context, index uint64, text string) (uint64, error) {
	var op operation
	op.KV.Verb, op.KV.Key, op.KV.Value, op.KV.Index = "cas", k.Key, []byte(text), index
	op.KV.Namespace, op.KV.Partition = k.Namespace, k.Partition
	a, err := k.do(ctx, http.MethodPut, "txn", k.query(), []operation{op}, http.StatusOK, http.StatusConflict)
	if err != nil {
		return 0, err
	}
	var out struct {
		Results []struct{ KV *pair }
		Errors  []struct{ What string }
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		return 0, errors.New("the answer is not that of Consul for a transaction; want the address of an agent of Consul")
	}
	if a.status == http.StatusConflict {
		if len(out.Errors) == 0 {
			return 0, k.refusal(a)
		}
		switch what := strings.Join(strings.Fields(out.Errors[0].What), " "); {
		case strings.HasSuffix(what, "index is stale"):
			return 0, register.ErrConflict
		case strings.HasPrefix(what, "Permission denied"):
			return 0, k.refusal(answer{status: http.StatusForbidden, body: []byte(what)})
		default:
			return 0, &status{a.status, fmt.Sprintf("%.300s", what)}
		}
	}
	if len(out.Results) != 1 || out.Results[0].KV == nil || out.Results[0].KV.Key != k.Key || out.Results[0].KV.ModifyIndex <= index {
		return 0, errors.New("the answer does not tell the key's new ModifyIndex; want the address of an agent of Consul")
	}
	return out.Results[0].KV.ModifyIndex, nil
}

// never is a ModifyIndex that no key has: the first entry of Raft's log is the servers' own.
const never = 1

// Admit implements [register.Admitter]: Consul refuses a write before it finds out that its condition does not hold.
func (k *key) Admit(ctx context.Context) error {
	if k.admitted.Load() {
		return nil
	}
	_, err := k.swap(ctx, never, "")
	if errors.Is(err, register.ErrConflict) {
		err = nil
	}
	accepted := k.checked.Load()
	if err = k.settle(&k.admitted, "write", err); accepted && driver.IsPermanent(err) && !isDenied(err) {
		return errors.New(err.Error()) // it was accepted before, and may be again
	}
	return err
}

// settle notes a check that succeeded, and marks an error that another attempt does not mend.
func (k *key) settle(done *atomic.Bool, right string, err error) error {
	done.Store(err == nil)
	if isDenied(err) {
		err = driver.Permanent(fmt.Errorf("%w; want a token whose policy has %s for the key: key %q { policy = \"write\" } (CONSUL_HTTP_TOKEN, CONSUL_HTTP_TOKEN_FILE or token_file)", err, right, k.Key))
	}
	return err
}

// Times of a blocking query. Consul adds a sixteenth.
const (
	watchFor   = time.Minute
	watchSlack = 15 * time.Second
	watchPause = 5 * time.Second // the longest one between two that failed
)

// Watch implements [register.Watcher]. Any server may answer, so it costs the servers' leader nothing, and proves
// nothing. Renewals are no news.
func (k *key) Watch(ctx context.Context, changed func()) {
	select {
	case k.watches <- struct{}{}:
		defer func() { <-k.watches }()
	default:
		<-ctx.Done() // too many elections share the client: this one polls
		return
	}
	var index uint64
	var shown string
	var known bool
	var pause time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		asking, cancel := context.WithTimeout(ctx, watchFor+watchFor/16+watchSlack)
		p, now, err := k.get(asking, "stale", "", "index", strconv.FormatUint(index, 10), "wait", watchFor.String())
		cancel()
		text := ""
		if p != nil {
			text = string(p.Value)
		}
		switch {
		case err != nil:
			index, pause = 0, min(max(2*pause, 100*time.Millisecond), watchPause)
		case now == index: // the time is over, or somebody answers who does not wait
			if pause = 0; time.Since(began) < time.Second {
				pause = time.Second
			}
		default:
			if !known || text != shown && register.News(shown, text) {
				changed()
			}
			known, shown, pause = true, text, 0
			if now < index {
				now = 0 // it went back, by a restore: the next answer is at once
			}
			index = now
		}
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}
