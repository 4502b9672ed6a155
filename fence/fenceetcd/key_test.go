package fenceetcd

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/electd/elect/fence"
)

// TestKey: a term writes as long as its own key is there, and what is refused is refused
// with the token of the present leader, if there is one.
func TestKey(t *testing.T) {
	for name, c := range map[string]struct {
		election string
		then     func(*etcd) // what happens after it was elected
		highest  func(Key, *etcd) fence.Token
	}{
		"nothing has happened": {election: "election/"},
		"somebody waits":       {election: "election/", then: func(e *etcd) { e.put("election/b", "") }},
		"its value has changed": {election: "election/", then: func(e *etcd) {
			e.put("election/a", "proclaimed")
		}},
		"nobody leads": {
			election: "election/",
			then:     func(e *etcd) { delete(e.keys, "election/a") },
			highest:  func(k Key, _ *etcd) fence.Token { return fence.Token(k.Revision) },
		},
		"somebody else leads": {
			election: "election/",
			then:     func(e *etcd) { delete(e.keys, "election/a"); e.put("election/b", ""); e.put("election/a0", "") },
			highest:  func(k Key, e *etcd) fence.Token { return fence.Token(e.keys["election/b"].CreateRevision) },
		},
		"its key was made again": {
			election: "election/",
			then:     func(e *etcd) { delete(e.keys, "election/a"); e.put("election/a", "") },
			highest:  func(k Key, e *etcd) fence.Token { return fence.Token(e.keys["election/a"].CreateRevision) },
		},
		"another election has a leader": {
			election: "election/",
			then:     func(e *etcd) { delete(e.keys, "election/a"); e.put("election2/a", "") },
			highest:  func(k Key, _ *etcd) fence.Token { return fence.Token(k.Revision) },
		},
		"a key of no election": {
			then:    func(e *etcd) { delete(e.keys, "a"); e.put("b", ""); e.put("a", "") },
			highest: func(k Key, e *etcd) fence.Token { return fence.Token(e.keys["a"].CreateRevision) },
		},
	} {
		e, kv := newEtcd()
		e.put("something", "before")
		e.put(c.election+"a", "")
		key := Key{Name: c.election + "a", Revision: e.revision}
		if err := key.Claim(t.Context(), kv); err != nil {
			t.Errorf("%s: a claim: %v", name, err)
		}
		if c.then != nil {
			c.then(e)
		}
		_, err := key.Write(t.Context(), kv, clientv3.OpPut("k", "applied"))
		if c.highest == nil {
			if err != nil || e.text("k") != "applied" {
				t.Errorf("%s: %v, and the key is %q", name, err, e.text("k"))
			}
			continue
		}
		wantStale(t, err, fence.Token(key.Revision), c.highest(key, e))
		if !errors.Is(err, ErrGone) || e.text("k") != "" {
			t.Errorf("%s: %v, and the key is %q", name, err, e.text("k"))
		}
	}
}

// TestKeyToken: tokens are in the order of the revisions, and of the eras before that.
func TestKeyToken(t *testing.T) {
	last := fence.Token(0)
	for _, k := range []Key{
		{"k", 1, 0}, {"k", 2, 0}, {"another", 1 << 40, 0}, {"k", fence.MaxCount, 0}, {"k", 1, 1}, {"k", 1, fence.MaxEra}, {"k", fence.MaxCount, fence.MaxEra},
	} {
		token, err := k.Token()
		if err != nil || token <= last || token.Count() != uint64(k.Revision) || token.Era() != k.Era {
			t.Errorf("%v after %v: %v, %v", k, last, token, err)
		}
		last = token
	}
	if last != fence.MaxToken {
		t.Errorf("the last is %v", last)
	}
}
