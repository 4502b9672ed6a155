package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/secure"
)

// ready checks the server, and that the user may run a script.
func (k *key) ready(ctx context.Context, may script) error {
	s, err := k.settings(ctx)
	if err != nil {
		return k.explained(err)
	}
	if err := s.fits(); err != nil {
		return driver.Permanent(err)
	}
	if !s.master() { // it may be promoted
		return errors.New("the server takes no writes, as a replica; want the master")
	}
	if err := k.judge(s); err != nil {
		return err
	}
	_, _, err = k.run(ctx, may, 0)
	return k.explained(err)
}

// check checks a server with a replication id that was not accepted yet.
func (k *key) check(ctx context.Context, id string) error {
	was := k.accepted.Load()
	s, err := k.settings(ctx)
	switch {
	case err != nil:
		return err
	case s.id != id:
		return fmt.Errorf("the replication id of Redis was %.8s, and is %.8s", id, s.id)
	}
	if err := k.judge(s); err != nil {
		return err
	}
	if k.accepted.CompareAndSwap(was, &id) && was != nil {
		k.log.Warn("Redis has another replication id: it was restarted, or a replica has taken over. If acknowledged writes were lost, tokens may repeat: raise the era then", "was", *was, "is", id)
	}
	return nil
}

// settings are those of a server that count.
type settings struct {
	version, mode, role, id string
	replicas                int // that are connected
	appends                 bool
	sync                    string // appendfsync; "" if it is not known
	unknown                 error  // why
	policy                  string // what is evicted
}

func (s *settings) master() bool { return s.role == "master" }

// settings asks the server.
func (k *key) settings(ctx context.Context) (*settings, error) {
	text, err := k.client.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	s := &settings{
		version: "Redis " + info["redis_version"], mode: cmp.Or(info["redis_mode"], info["server_mode"]), role: info["role"], id: info["master_replid"],
		appends: info["aof_enabled"] == "1", policy: info["maxmemory_policy"],
	}
	if v := info["valkey_version"]; v != "" {
		s.version = "Valkey " + v
	}
	s.replicas, _ = strconv.Atoi(info["connected_slaves"]) // a server that has none may not tell
	got, err := k.client.ConfigGet(ctx, "appendfsync").Result()
	if _, answered := errors.AsType[redis.Error](err); err != nil && !answered {
		return nil, err
	}
	s.sync, s.unknown = got["appendfsync"], err
	return s, nil
}

// judge returns an error marked by [driver.Permanent] if the settings break the guarantee.
func (k *key) judge(s *settings) error {
	for _, err := range []error{s.fits(), s.keeps(k.volatile), s.evicts(), s.replicated(k.replicas)} {
		if err != nil {
			return driver.Permanent(err)
		}
	}
	return nil
}

// fits says why the server cannot hold elections whatever its settings are.
func (s *settings) fits() error {
	switch s.mode {
	case "cluster":
		return errors.New("the server is one of a Redis Cluster, which fails over to replicas that may lack acknowledged writes, and whose keys move; want a server outside a cluster")
	case "sentinel":
		return errors.New("the server is a Sentinel; want the name of its master in the URL: master_name=NAME")
	}
	return nil
}

// keeps says why the server may lose what it has acknowledged.
func (s *settings) keeps(volatile bool) error {
	const want = "want appendonly yes and appendfsync always; or volatile=on if tokens may repeat then"
	switch {
	case volatile:
	case !s.appends:
		return errors.New("appendonly is no: a restart forgets acknowledged writes; " + want)
	case s.sync == "":
		return fmt.Errorf("appendfsync cannot be read (%w); want a user who may CONFIG GET it, or volatile=on if tokens may repeat after a restart", s.unknown)
	case s.sync != "always":
		return fmt.Errorf("appendfsync is %s: a loss of power forgets acknowledged writes; %s", s.sync, want)
	}
	return nil
}

// evicts says why the server may evict the key.
func (s *settings) evicts() error {
	if strings.HasPrefix(s.policy, "allkeys-") {
		return fmt.Errorf("maxmemory-policy is %s: the election can be evicted; want noeviction, or one that begins with volatile-", s.policy)
	}
	return nil
}

// replicated says why a replica may take over that lacks what counts.
func (s *settings) replicated(replicas int) error {
	if replicas == 0 && s.replicas > 0 {
		return fmt.Errorf("the server has %d replicas, and a failover to one may lose acknowledged writes; want replicas=%d, which waits for them, or replicas=any if two leaders are possible then, or none is ever promoted", s.replicas, s.replicas)
	}
	return nil
}

// refusals are answers of a server that no later attempt mends, by their beginning, and what would be right.
var refusals = []struct{ says, want string }{
	{"NOAUTH", "a user and a password: in the URL, in password_file or in the variable REDISCLI_AUTH"},
	{"WRONGPASS", "a user that exists, and the right password"},
	{"NOPERM", rights},
	{"The user executing the script can't", rights}, // in Redis 7.0
	{"ACL failure in script", rights},               // in Redis 8 and Valkey
	{"DB index is out of range", "a database that the server has"},
	{"WRONGTYPE", "another key, or one that holds a string: {key} holds something else"},
}

const rights = "a user with these rights: +info +config|get +eval +evalsha +get +set +publish +subscribe +unsubscribe +ping +wait +select ~{key} &{key}"

// explained makes an error permanent if it lasts, and says what would be right.
func (k *key) explained(err error) error {
	if err == nil || driver.IsPermanent(err) {
		return err
	}
	want, lasting := secure.Remedy(err)
	if text := err.Error(); strings.Contains(text, "all sentinels specified") {
		switch {
		case strings.Contains(text, redis.Nil.Error()):
			err, want, lasting = errors.New("the Sentinels know no master of that name"), "master_name=NAME as in their configuration", true
		case strings.Contains(text, "unknown command 'sentinel'"):
			err, want, lasting = errors.New("the server is no Sentinel"), "the address of a Sentinel, or no master_name", true
		}
	}
	for _, r := range refusals {
		if redis.HasErrorPrefix(err, r.says) {
			want, lasting = strings.ReplaceAll(r.want, "{key}", k.name), true
		}
	}
	if want == "" {
		return err
	}
	if err = fmt.Errorf("%s; want %s", strings.TrimSuffix(oneLine(err), "."), want); lasting {
		err = driver.Permanent(err)
	}
	return err
}

// forbids reports whether the user lacks a right.
func forbids(err error) bool {
	return strings.Contains(err.Error(), rights[:strings.IndexByte(rights, ':')])
}

// oneLine is the text of an error, on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// examine says what the server is, and what its settings mean.
func (k *key) examine(ctx context.Context) ([]driver.Finding, error) {
	s, err := k.settings(ctx)
	if err != nil {
		return nil, err
	}
	finding := func(what, value, means string, wrong error) driver.Finding {
		if wrong != nil {
			means = wrong.Error()
		}
		return driver.Finding{What: what, Value: value, Means: means, Wrong: wrong != nil}
	}
	role := finding("role", s.role, "it takes writes", nil)
	if !s.master() {
		role.Wrong, role.Means = true, "it takes no writes, and nobody can be elected; want the URL of the master, or of its Sentinels with master_name"
	}
	appends, sync := "no", s.sync
	if s.appends {
		appends = "yes"
	}
	if sync == "" {
		sync = "not known"
	}
	kept := "what is acknowledged survives a crash of the server, and a loss of power"
	if k.volatile {
		kept = "volatile=on: a restart may forget acknowledged writes; leases stay exclusive, tokens may repeat: raise era then"
	}
	return []driver.Finding{
		finding("version", s.version, "elections need Redis 7 or later, or Valkey", nil),
		finding("mode", s.mode, "a server of its own", s.fits()),
		role,
		finding("master_replid", s.id, "a restart or a failover changes it, and all participants wait for max_lease then", nil),
		finding("appendonly, appendfsync", appends+", "+sync, kept, s.keeps(k.volatile)),
		finding("maxmemory-policy", s.policy, "the key has no expiry, so it is not evicted", s.evicts()),
		finding("replicas", strconv.Itoa(s.replicas), s.failover(k.replicas), s.replicated(k.replicas)),
		k.rights(ctx),
	}, nil
}

// failover says what a failover loses.
func (s *settings) failover(replicas int) string {
	switch {
	case replicas < 0:
		return "replicas=any: a failover may lose acknowledged writes, and a master that was replaced may acknowledge more; two leaders are possible then, and tokens may repeat: raise era"
	case replicas > s.replicas:
		return fmt.Sprintf("replicas=%d: no write counts before as many are connected, and nobody can be elected", replicas)
	case replicas < s.replicas:
		return fmt.Sprintf("replicas=%d: a failover to one that lacks a write loses it; replicas=%d excludes that", replicas, s.replicas)
	case replicas > 0:
		return "each has a write before it counts, so a failover loses nothing that counts"
	}
	return "none is connected, and none may take over"
}

// rights says whether the user can lead.
func (k *key) rights(ctx context.Context) driver.Finding {
	f := driver.Finding{What: "rights", Value: "enough", Means: "the user may read and write the key"}
	if _, _, err := k.run(ctx, newScript(try), 0); err != nil {
		err = k.explained(err)
		f.Value, f.Wrong, f.Means = "not known", driver.IsPermanent(err), oneLine(err)
		if forbids(err) {
			f.Value = "missing"
		}
	}
	return f
}
