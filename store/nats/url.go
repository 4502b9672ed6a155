package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/register"
)

// links are the connections of the URLs of this process. They are a variable of the package because elections are opened
// by independent calls, with no common argument.
var links pool.Pool[access, *link]

// Open is the opener of URLs such as
//
//	nats://user@10.0.0.1,10.0.0.2:4222,10.0.0.3/BUCKET?lease=5s&creds=/etc/elect/nats.creds
//
// The port is 4222 if there is none, and the bucket is elect. The parameters are
//
//	lease=5s  max_lease=15s  poll=1s  replicas=3  era=N  flight=DIR
//
// as in [Config], and
//
//	tls=on  cacert=FILE  cert=FILE  cert_key=FILE  server_name=NAME
//	user=NAME  password_file=FILE  token_file=FILE  creds=FILE  nkey=FILE
//
// where each of the files before server_name means tls=on. What the URL does not have is taken from the environment of
// the command nats: NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CREDS, NATS_NKEY, NATS_CA, NATS_CERT, NATS_KEY.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	cfg, c, err := parse(t.URL, os.Getenv)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("nats: %w", err))
	}
	cfg.Logger = t.Logger
	if c.secret() && !c.tls && t.Logger != nil {
		t.Logger.Warn("the password or token for NATS is sent without TLS, unless the server asks for TLS; want tls=on")
	}
	l, done, err := links.Use(c.access, func() (*link, func() error, error) {
		l, err := c.open()
		if err != nil {
			return nil, nil, err
		}
		return l, func() error { l.Close(); return nil }, nil
	})
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("nats: %w", err))
	}
	e, err := newElector(ctx, l, t.Name, t.ID, cfg, t.URL)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	closed := e.close
	e.close = sync.OnceValue(func() error { return errors.Join(closed(), done()) })
	return e, nil
}

// Witness is a supervise.Witness for leaders whose election was opened by [Open]: it writes the dead leader's key free,
// so that the next one need not wait for the lease. It connects when it speaks, by the URL of the leader and the same
// files and environment.
func Witness(_ context.Context, testament []byte) (speak func(context.Context) error, err error) {
	return drive.Witness(testament, func(ctx context.Context, d *drive.Deceased) error {
		cfg, c, err := parse(d.URL, os.Getenv)
		if err != nil {
			return err
		}
		l, err := c.open()
		if err != nil {
			return err
		}
		defer l.Close()
		b, err := newBucket(l, d.Name, cfg)
		if err != nil {
			return err
		}
		return register.Free(ctx, b, d)
	})
}

// access is what tells two connections apart. It contains the password.
type access struct {
	hosts, user, password, token string
	creds, nkey                  string // files
	tls                          bool
	serverName, authority        string
	cert, certKey                string // files
	ping                         time.Duration
}

// connection is how to connect.
type connection struct {
	access
	several int // hosts
}

// secret reports whether a server without TLS is told a secret.
func (c *connection) secret() bool { return c.password != "" || c.token != "" }

// open returns a connection, which need not be there yet: it is tried again and again.
func (c *connection) open() (*link, error) {
	l := &link{hosts: c.several, patience: 3 * c.ping}
	options := []nats.Option{
		nats.Name("elect"), nats.Timeout(2 * time.Second), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1), // a write that waits for a connection would be late
		nats.IgnoreAuthErrorAbort(), nats.PingInterval(c.ping), nats.MaxPingsOutstanding(2),
		nats.ReconnectErrHandler(l.failed), nats.DisconnectErrHandler(l.failed),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the default prints
	}
	switch {
	case c.creds != "":
		options = append(options, nats.UserCredentials(c.creds))
	case c.nkey != "":
		o, err := nats.NkeyOptionFromSeed(c.nkey)
		if err != nil {
			return nil, err
		}
		options = append(options, o)
	case c.token != "":
		options = append(options, nats.Token(c.token))
	case c.user != "":
		options = append(options, nats.UserInfo(c.user, c.password))
	}
	if c.tls {
		cfg := &tls.Config{ServerName: c.serverName, MinVersion: tls.VersionTLS12}
		if c.authority != "" {
			cfg.RootCAs = x509.NewCertPool()
			cfg.RootCAs.AppendCertsFromPEM([]byte(c.authority)) // parse has tried
		}
		if c.cert != "" {
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // it may have been renewed
				pair, err := tls.LoadX509KeyPair(c.cert, c.certKey)
				return &pair, err
			}
		}
		options = append(options, nats.Secure(cfg))
	}
	conn, err := nats.Connect(c.hosts, options...)
	if err != nil {
		return nil, err
	}
	l.Conn, l.turn = conn, func() { _ = conn.ForceReconnect() } // unless it was closed meanwhile
	return l, nil
}

// defaultPort is that of NATS.
const defaultPort = "4222"

// parse reads a URL, with what the environment has beside it.
func parse(u *url.URL, env func(string) string) (cfg Config, c *connection, err error) {
	authority, path, user := u.Host, u.Path, u.User
	if u.Opaque != "" { // several hosts; see elect.ParseURL
		place, found := strings.CutPrefix(u.Opaque, "//")
		authority, path, _ = strings.Cut(place, "/")
		if !found {
			return cfg, nil, errors.New("the URL does not parse; want nats://HOST,HOST/BUCKET")
		}
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			one, err := url.Parse("nats://" + authority[:at] + "@host")
			if err != nil {
				return cfg, nil, errors.New("the user in the URL does not parse; want nats://USER@HOST,HOST/BUCKET")
			}
			authority, user = authority[at+1:], one.User
		}
	}
	p, err := parameters(u.RawQuery, &cfg)
	if err != nil {
		return cfg, nil, err
	}
	if cfg.Bucket = strings.Trim(path, "/"); cfg.Bucket != "" && !validBucket(cfg.Bucket) {
		return cfg, nil, fmt.Errorf("bucket %.100q; want letters, digits, underscores and dashes, as in nats://HOST/BUCKET", cfg.Bucket)
	}
	c = &connection{}
	if err := c.secure(p, env); err != nil {
		return cfg, nil, err
	}
	if err := c.credentials(p, user, env); err != nil {
		return cfg, nil, err
	}
	scheme := "nats://"
	if c.tls {
		scheme = "tls://"
	}
	var hosts []string
	for host := range strings.SplitSeq(authority, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
		}
		if name, port, err := net.SplitHostPort(host); err != nil || name == "" || port == "" {
			return cfg, nil, fmt.Errorf("host %.100q; want HOST or HOST:PORT, and a comma between two", host)
		}
		hosts = append(hosts, scheme+host)
	}
	c.access.hosts, c.several = strings.Join(hosts, ","), len(hosts)
	// A way that is cut without a sign, and a server that is, are noticed after three of these, while the lease lasts.
	c.ping = min(max(cmp.Or(cfg.Lease, DefaultLease)/10, 50*time.Millisecond), time.Second)
	return cfg, c, nil
}

// parameters reads a query into cfg, and returns what is not in it.
func parameters(query string, cfg *Config) (map[string]string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the parameters do not parse; want NAME=VALUE&NAME=VALUE, with special characters written as %XX")
	}
	times := map[string]*time.Duration{"lease": &cfg.Lease, "max_lease": &cfg.MaxLease, "poll": &cfg.Poll}
	p := map[string]string{}
	for key, all := range values {
		value := all[0]
		if len(all) != 1 || value == "" {
			return nil, fmt.Errorf("%.40s is empty, or given %d times; want it once", key, len(all))
		}
		switch key {
		case "lease", "max_lease", "poll":
			if *times[key], err = time.ParseDuration(value); err != nil || *times[key] <= 0 {
				return nil, fmt.Errorf("%s=%.40s; want a time such as 5s", key, value)
			}
		case "era":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("era=%.40s; want 0 to 65535", value)
			}
			cfg.Era = uint16(n)
		case "replicas":
			if value != "1" && value != "3" && value != "5" {
				return nil, fmt.Errorf("replicas=%.40s; want 1, 3 or 5", value)
			}
			cfg.Replicas = int(value[0] - '0')
		case "tls":
			if value != "on" && value != "off" {
				return nil, fmt.Errorf("tls=%.40s; want on or off", value)
			}
			p[key] = value
		case "flight":
			cfg.Flight = value
		case "cacert", "cert", "cert_key", "server_name", "user", "password_file", "token_file", "creds", "nkey":
			p[key] = value
		default:
			return nil, fmt.Errorf("unknown parameter %.40q; want lease, max_lease, poll, replicas, era, flight, tls, cacert, cert, cert_key, server_name, user, password_file, token_file, creds or nkey", key)
		}
	}
	return p, nil
}

// secure sets how connections are secured, if they are.
func (c *connection) secure(p map[string]string, env func(string) string) error {
	cacert, cert, key := cmp.Or(p["cacert"], env("NATS_CA")), cmp.Or(p["cert"], env("NATS_CERT")), cmp.Or(p["cert_key"], env("NATS_KEY"))
	files := cacert != "" || cert != "" || key != ""
	switch {
	case p["tls"] == "off" && (p["cacert"] != "" || p["cert"] != "" || p["cert_key"] != "" || p["server_name"] != ""):
		return errors.New("tls=off, and parameters of TLS; want tls=on")
	case p["tls"] == "off", p["tls"] == "" && !files:
		return nil
	case cert == "" != (key == ""):
		return errors.New("one of cert and cert_key; want both, or neither")
	}
	c.tls, c.serverName = true, p["server_name"]
	if cacert != "" {
		text, err := os.ReadFile(cacert)
		if err != nil {
			return err
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no certificate; want PEM", cacert)
		}
		c.authority = string(text)
	}
	if cert != "" {
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return err
		}
		c.cert, c.certKey = cert, key
	}
	return nil
}

// credentials sets what a server is shown: credentials, an nkey, a token, or a user and its password. What the URL has
// is stronger than the environment.
func (c *connection) credentials(p map[string]string, in *url.Userinfo, env func(string) string) error {
	password, hasPassword := in.Password()
	if in != nil && !hasPassword && p["password_file"] == "" && env("NATS_PASSWORD") == "" {
		// Other clients of NATS take that for a token, which would be shown with the URL.
		return errors.New("a user without a password in the URL; want USER with password_file=FILE or NATS_PASSWORD, or a token in token_file=FILE or NATS_TOKEN")
	}
	if in != nil && p["user"] != "" {
		return errors.New("a user before the host and in the parameter user; want one of them")
	}
	user := cmp.Or(in.Username(), p["user"])
	given := 0
	for _, is := range []bool{user != "" || p["password_file"] != "", p["token_file"] != "", p["creds"] != "", p["nkey"] != ""} {
		if is {
			given++
		}
	}
	if given > 1 {
		return errors.New("more than one of a user, token_file, creds and nkey; want one of them")
	}
	var err error
	switch {
	case p["creds"] != "":
		c.creds = p["creds"]
	case p["nkey"] != "":
		c.nkey = p["nkey"]
	case p["token_file"] != "":
		c.token, err = secretOf(p["token_file"])
	case given == 1:
		if c.user, c.password = user, password; p["password_file"] != "" {
			c.password, err = secretOf(p["password_file"])
		} else if !hasPassword {
			c.password = env("NATS_PASSWORD")
		}
		if err == nil && (c.user == "" || c.password == "") {
			err = errors.New("a user without a password, or a password without a user; want both (password_file, NATS_PASSWORD), or neither")
		}
	default:
		c.creds, c.nkey, c.token, c.user, c.password = env("NATS_CREDS"), env("NATS_NKEY"), env("NATS_TOKEN"), env("NATS_USER"), env("NATS_PASSWORD")
	}
	if err != nil {
		return err
	}
	for _, file := range []string{c.creds, c.nkey} {
		if file != "" {
			if _, err := os.Stat(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// secretOf is what a file has, without the end of its line.
func secretOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if s := strings.TrimRight(string(text), "\r\n"); s != "" {
		return s, nil
	}
	return "", fmt.Errorf("%s is empty; want a password or a token", file)
}
