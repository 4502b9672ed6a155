package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
	"github.com/electd/elect/store/internal/secure"
)

// Open is the opener of URLs such as
//
//	redis://USER:PASSWORD@HOST:PORT/DB
//	rediss://HOST?cacert=/etc/redis/ca.crt                          with TLS
//	redis+unix:///run/redis/redis.sock?db=1                         a socket
//	redis://SENTINEL1:26379?master_name=jobs&addr=SENTINEL2:26379   the master that Sentinels name
//
// in the form of go-redis. The parameters are
//
//	lease=5s  max_lease=15s  poll=1s  key=KEY  replicas=N|any  volatile=on  era=N  flight=DIR
//
// as in [Config], and
//
//	db=N  username=NAME  password=PASSWORD  password_file=FILE  cacert=FILE  cert=FILE  cert_key=FILE  server_name=NAME
//	master_name=NAME  addr=HOST:PORT (any number of times)
//
// With master_name the user and the password before the host are those of the Sentinels. A server's password that the
// URL does not have is taken from the variable REDISCLI_AUTH, as by redis-cli.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	cfg, at, err := parse(t.URL, os.Getenv)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("redis: %w", err))
	}
	cfg.Logger = t.Logger
	if t.Logger != nil && !at.tls.On && at.password != "" && at.network != "unix" {
		t.Logger.Warn("the password for Redis is sent without TLS; want rediss://")
	}
	client, done, _ := clients.Use(at.access, func() (*redis.Client, func() error, error) { // which does not fail
		c := at.open()
		return c, c.Close, nil
	})
	e, err := newElector(ctx, client, t.Name, t.ID, cfg, t.URL)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	e.AtClose(done)
	return e, nil
}

// Witness is a supervise.Witness for leaders whose election was opened by [Open]: it frees the dead leader's key, so
// that the next one need not wait for the lease. It connects when it speaks, by the URL of the leader and the same
// files and environment.
func Witness(_ context.Context, testament []byte) (speak func(context.Context) error, err error) {
	return drive.Witness(testament, func(ctx context.Context, dead *drive.Deceased) error {
		cfg, at, err := parse(dead.URL, os.Getenv)
		if err != nil {
			return err
		}
		client := at.open()
		defer client.Close()
		k := &key{client: client, name: cmp.Or(cfg.Key, defaultKey(dead.Name)), replicas: cfg.Replicas, volatile: cfg.Volatile, log: slog.New(slog.DiscardHandler)}
		return register.Free(ctx, k, dead)
	})
}

// access is what tells two connections apart. The elections of a process with the same one share a client. It contains
// the password.
type access struct {
	network, addr, user, password  string
	db                             int
	master                         string // the name that Sentinels have for it; "" without any
	sentinels                      string // separated by commas
	sentinelUser, sentinelPassword string
	tls                            secure.TLS
}

// connection is how a client connects.
type connection struct {
	access
	config *tls.Config // nil: without TLS
}

// dialTimeout is how long a server may take to accept a connection.
const dialTimeout = 2 * time.Second

// open returns a client without asking a server. A request is sent once, and ends with its context. The client speaks
// RESP2, because what RESP3 adds is not used.
func (c *connection) open() *redis.Client {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) { // go-redis's own waits for TLS after the end of ctx
		plain := &net.Dialer{Timeout: dialTimeout}
		if c.config == nil {
			return plain.DialContext(ctx, network, addr)
		}
		conn, err := (&tls.Dialer{NetDialer: plain, Config: c.config}).DialContext(ctx, network, addr)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no TLS connection to %s in time (%w); want redis:// if the server has no TLS", addr, err)
		}
		return conn, err
	}
	if c.master != "" {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			Dialer: dial, MasterName: c.master, SentinelAddrs: strings.Split(c.sentinels, ","), SentinelUsername: c.sentinelUser, SentinelPassword: c.sentinelPassword,
			Username: c.user, Password: c.password, DB: c.db, TLSConfig: c.config,
			Protocol: 2, MaxRetries: -1, DialerRetries: 1, DialTimeout: dialTimeout, ContextTimeoutEnabled: true, DisableIdentity: true,
		})
	}
	return redis.NewClient(&redis.Options{
		Dialer: dial, Network: c.network, Addr: c.addr, Username: c.user, Password: c.password, DB: c.db, TLSConfig: c.config,
		Protocol: 2, MaxRetries: -1, DialerRetries: 1, DialTimeout: dialTimeout, ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// schemes are those of go-redis, by ours.
var schemes = map[string]string{"redis": "redis", "rediss": "rediss", "redis+unix": "unix"}

// parse reads a URL, with what the environment has beside it.
func parse(u *url.URL, env func(string) string) (cfg Config, c *connection, err error) {
	place := *u
	place.Scheme, place.RawQuery, place.Fragment = schemes[u.Scheme], "", ""
	if u.Opaque != "" || place.Scheme == "" || place.Scheme == "unix" && u.Host != "" {
		return cfg, nil, errors.New("the URL does not parse; want redis://HOST:PORT/DB, rediss://HOST:PORT/DB or redis+unix:///PATH, and addr=HOST:PORT for each further Sentinel")
	}
	o, err := redis.ParseURL(place.String())
	if err != nil && strings.Contains(u.Path, "@") { // the error shows the path, which may be the end of a password
		return cfg, nil, errors.New("an @ in the path of the URL; want redis://HOST:PORT/DB, and %2F for a slash in a password")
	}
	if err != nil {
		return cfg, nil, errors.New(strings.TrimPrefix(err.Error(), "redis: ") + "; want redis://HOST:PORT/DB, rediss://HOST:PORT/DB or redis+unix:///PATH")
	}
	c = &connection{access: access{network: o.Network, addr: o.Addr, user: o.Username, password: o.Password, db: o.DB}}
	if c.network == "tcp" {
		if c.addr, err = drive.HostPort(c.addr, "6379"); err != nil {
			return cfg, nil, err
		}
	}
	var user, password, file, volatile string
	var addrs []string
	var p secure.Parameters
	if err := drive.ParseParameters(u.RawQuery, append([]drive.Parameter{
		drive.Duration("lease", &cfg.Lease), drive.Duration("max_lease", &cfg.MaxLease), drive.Duration("poll", &cfg.Poll), drive.Text("key", &cfg.Key),
		drive.Value("replicas", cfg.parseReplicas), drive.Choice("volatile", &volatile), drive.Era(&cfg.Era), drive.Text("flight", &cfg.Flight),
		drive.Value("db", c.parseDB), drive.Text("username", &user), drive.Text("password", &password), drive.Text("password_file", &file),
		drive.Text("master_name", &c.master), drive.Texts("addr", &addrs),
	}, p.Known()...)...); err != nil {
		return cfg, nil, err
	}
	cfg.Volatile = volatile == "on"
	if err := c.follow(addrs); err != nil {
		return cfg, nil, err
	}
	if err := c.authenticate(user, password, file, env); err != nil {
		return cfg, nil, err
	}
	switch on, err := p.Complete(secure.Parameters{}, o.TLSConfig != nil); {
	case err != nil || !on:
		return cfg, c, err
	case o.TLSConfig == nil:
		return cfg, nil, errors.New("parameters of TLS without TLS; want rediss://")
	}
	if p.ServerName == "" && c.master == "" { // behind Sentinels it is the host of each server
		p.ServerName = o.TLSConfig.ServerName
	}
	if c.tls, err = p.Read(); err == nil {
		c.config, err = c.tls.Config()
	}
	return cfg, c, err
}

func (c *Config) parseReplicas(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	switch c.Replicas = int(n); {
	case text == "any":
		c.Replicas = AnyReplicas
	case err != nil || n > maxReplicas:
		return fmt.Errorf("replicas=%.40s; want 0 to %d, or any", text, maxReplicas)
	}
	return nil
}

func (c *connection) parseDB(text string) (err error) {
	if c.db, err = strconv.Atoi(text); err != nil || c.db < 0 {
		return fmt.Errorf("db=%.40s; want the number of a database", text)
	}
	return nil
}

// follow has the client ask Sentinels for the master, if the URL names one.
func (c *connection) follow(addrs []string) error {
	switch {
	case c.master == "" && len(addrs) > 0:
		return errors.New("addr without master_name; want the name that the Sentinels have for the master")
	case c.master == "":
		return nil
	case c.network == "unix":
		return errors.New("master_name at a socket; want redis://SENTINEL:26379?master_name=NAME")
	}
	for _, addr := range addrs {
		if full, err := drive.HostPort(addr, "0"); err != nil || full != addr || strings.ContainsAny(addr, ",@/") {
			return fmt.Errorf("addr=%.100s; want HOST:PORT of a Sentinel", addr)
		}
	}
	c.sentinels = strings.Join(append([]string{c.addr}, addrs...), ",")
	c.sentinelUser, c.sentinelPassword = c.user, c.password
	c.addr, c.user, c.password = "", "", ""
	return nil
}

// authenticate sets user and password. Those that are given are of parameters.
func (c *connection) authenticate(user, password, file string, env func(string) string) (err error) {
	if user != "" && c.user != "" || password != "" && c.password != "" {
		return errors.New("a user or a password before the host and in a parameter; want one of them")
	}
	c.user, c.password = cmp.Or(user, c.user), cmp.Or(password, c.password)
	if file != "" {
		if c.password != "" {
			return errors.New("a password, and password_file; want one of them")
		}
		if c.password, err = drive.ReadPassword(file); err != nil {
			return err
		}
	}
	if c.password = cmp.Or(c.password, env("REDISCLI_AUTH")); c.user != "" && c.password == "" {
		return errors.New("a user without a password; want USER:PASSWORD, password_file or REDISCLI_AUTH")
	}
	return nil
}
