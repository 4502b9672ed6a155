package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// Open is the opener of URLs such as
//
//	redis://USER:PASSWORD@HOST:PORT/DB
//	rediss://HOST?cacert=/etc/redis/ca.crt                          with TLS
//	redis+unix:///run/redis/redis.sock?db=1                         a socket
//	redis://SENTINEL1:26379?master_name=jobs&addr=SENTINEL2:26379   the master that Sentinels name
//
// as those of go-redis. The parameters are
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
	if t.Logger != nil && at.tls == nil && at.password != "" && at.network != "unix" {
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
	closed := e.close
	e.close = sync.OnceValue(func() error { return errors.Join(closed(), done()) })
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
	network, addr, user, password        string
	db                                   int
	master                               string // the name that Sentinels have for it; "" without any
	sentinels                            string // separated by commas
	sentinelUser, sentinelPassword       string
	secure                               bool
	serverName, authority, cert, certKey string // authority is the text, the others are paths
}

// connection is how a client connects.
type connection struct {
	access
	tls *tls.Config
}

// dialTimeout is how long a server may take to accept a connection.
const dialTimeout = 2 * time.Second

// open returns a client without asking a server. A request is sent once, and ends with its context. The client speaks
// RESP2, because what RESP3 adds is not used.
func (c *connection) open() *redis.Client {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) { // go-redis's own waits for TLS after the end of ctx
		plain := &net.Dialer{Timeout: dialTimeout}
		if c.tls == nil {
			return plain.DialContext(ctx, network, addr)
		}
		conn, err := (&tls.Dialer{NetDialer: plain, Config: c.tls}).DialContext(ctx, network, addr)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no TLS connection to %s in time (%w); want redis:// if the server has no TLS", addr, err)
		}
		return conn, err
	}
	if c.master != "" {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			Dialer: dial, MasterName: c.master, SentinelAddrs: strings.Split(c.sentinels, ","), SentinelUsername: c.sentinelUser, SentinelPassword: c.sentinelPassword,
			Username: c.user, Password: c.password, DB: c.db, TLSConfig: c.tls,
			Protocol: 2, MaxRetries: -1, DialerRetries: 1, DialTimeout: dialTimeout, ContextTimeoutEnabled: true, DisableIdentity: true,
		})
	}
	return redis.NewClient(&redis.Options{
		Dialer: dial, Network: c.network, Addr: c.addr, Username: c.user, Password: c.password, DB: c.db, TLSConfig: c.tls,
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
	if err != nil {
		return cfg, nil, errors.New(strings.TrimPrefix(err.Error(), "redis: ") + "; want redis://HOST:PORT/DB, rediss://HOST:PORT/DB or redis+unix:///PATH")
	}
	c = &connection{access: access{network: o.Network, addr: o.Addr, user: o.Username, password: o.Password, db: o.DB, secure: o.TLSConfig != nil}, tls: o.TLSConfig}
	if c.network == "tcp" && !drive.IsHostPort(c.addr) {
		return cfg, nil, fmt.Errorf("host %.100q; want HOST or HOST:PORT", c.addr)
	}
	p, addrs, err := parameters(u.RawQuery, &cfg)
	if err != nil {
		return cfg, nil, err
	}
	if text := p["db"]; text != "" {
		if c.db, err = strconv.Atoi(text); err != nil || c.db < 0 {
			return cfg, nil, fmt.Errorf("db=%.40s; want the number of a database", text)
		}
	}
	if err := c.follow(p, addrs); err != nil {
		return cfg, nil, err
	}
	if err := c.authenticate(p, env); err != nil {
		return cfg, nil, err
	}
	return cfg, c, c.secured(p)
}

// parameters reads a query into cfg, and returns what is not in it.
func parameters(query string, cfg *Config) (p map[string]string, addrs []string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, nil, fmt.Errorf("parameters: %w", err)
	}
	times := map[string]*time.Duration{"lease": &cfg.Lease, "max_lease": &cfg.MaxLease, "poll": &cfg.Poll}
	p = map[string]string{}
	for key, all := range values {
		value := all[0]
		if key == "addr" {
			addrs = all
			continue
		}
		if len(all) != 1 || value == "" {
			return nil, nil, fmt.Errorf("%.40s is empty, or given %d times; want it once", key, len(all))
		}
		switch key {
		case "lease", "max_lease", "poll":
			if *times[key], err = time.ParseDuration(value); err != nil || *times[key] <= 0 {
				return nil, nil, fmt.Errorf("%s=%.40s; want a time such as 5s", key, value)
			}
		case "era":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return nil, nil, fmt.Errorf("era=%.40s; want 0 to 65535", value)
			}
			cfg.Era = uint16(n)
		case "replicas":
			cfg.Replicas = AnyReplicas
			if n, err := strconv.ParseUint(value, 10, 16); err == nil && n <= maxReplicas {
				cfg.Replicas = int(n)
			} else if value != "any" {
				return nil, nil, fmt.Errorf("replicas=%.40s; want 0 to %d, or any", value, maxReplicas)
			}
		case "volatile":
			if value != "on" && value != "off" {
				return nil, nil, fmt.Errorf("volatile=%.40s; want on or off", value)
			}
			cfg.Volatile = value == "on"
		case "key":
			cfg.Key = value
		case "flight":
			cfg.Flight = value
		case "db", "username", "password", "password_file", "cacert", "cert", "cert_key", "server_name", "master_name":
			p[key] = value
		default:
			return nil, nil, fmt.Errorf("unknown parameter %.40q; want lease, max_lease, poll, key, replicas, volatile, era, flight, db, username, password, password_file, cacert, cert, cert_key, server_name, master_name or addr", key)
		}
	}
	return p, addrs, nil
}

// follow has the client ask Sentinels for the master, if the URL names one.
func (c *connection) follow(p map[string]string, addrs []string) error {
	c.master = p["master_name"]
	switch {
	case c.master == "" && len(addrs) > 0:
		return errors.New("addr without master_name; want the name that the Sentinels have for the master")
	case c.master == "":
		return nil
	case c.network == "unix":
		return errors.New("master_name at a socket; want redis://SENTINEL:26379?master_name=NAME")
	}
	for _, addr := range addrs {
		if !drive.IsHostPort(addr) || strings.ContainsAny(addr, ",@/") {
			return fmt.Errorf("addr=%.100s; want HOST:PORT of a Sentinel", addr)
		}
	}
	c.sentinels = strings.Join(append([]string{c.addr}, addrs...), ",")
	c.sentinelUser, c.sentinelPassword = c.user, c.password
	c.addr, c.user, c.password = "", "", ""
	return nil
}

// authenticate sets user and password.
func (c *connection) authenticate(p map[string]string, env func(string) string) error {
	if p["username"] != "" && c.user != "" || p["password"] != "" && c.password != "" {
		return errors.New("a user or a password before the host and in a parameter; want one of them")
	}
	c.user, c.password = cmp.Or(p["username"], c.user), cmp.Or(p["password"], c.password)
	if file := p["password_file"]; file != "" {
		if c.password != "" {
			return errors.New("a password, and password_file; want one of them")
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		c.password = strings.TrimRight(string(text), "\r\n")
	}
	if c.password = cmp.Or(c.password, env("REDISCLI_AUTH")); c.user != "" && c.password == "" {
		return errors.New("a user without a password; want USER:PASSWORD, password_file or REDISCLI_AUTH")
	}
	return nil
}

// secured sets how connections are secured.
func (c *connection) secured(p map[string]string) error {
	cacert, cert, key := p["cacert"], p["cert"], p["cert_key"]
	switch {
	case !c.secure && (cacert != "" || cert != "" || key != "" || p["server_name"] != ""):
		return errors.New("parameters of TLS without TLS; want rediss://")
	case !c.secure:
		return nil
	case cert == "" != (key == ""):
		return errors.New("one of cert and cert_key; want both, or neither")
	}
	c.cert, c.certKey = cert, key
	if name := p["server_name"]; name != "" {
		c.tls.ServerName = name
	} else if c.master != "" {
		c.tls.ServerName = "" // that of each server
	}
	c.serverName = c.tls.ServerName
	if cacert != "" {
		text, err := os.ReadFile(cacert)
		if err != nil {
			return err
		}
		if c.tls.RootCAs = x509.NewCertPool(); !c.tls.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no certificate; want PEM", cacert)
		}
		c.authority = string(text)
	}
	if cert != "" {
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return err
		}
		c.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // it may have been renewed
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}
	}
	return nil
}
