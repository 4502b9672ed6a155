package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/pool"
	"github.com/electd/elect/store/internal/register"
	"github.com/electd/elect/store/internal/secure"
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
// where each of the others in the first line means tls=on. What the URL does not have is taken from the environment of
// the command nats: NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CREDS, NATS_NKEY, NATS_CA, NATS_CERT, NATS_KEY.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	cfg, c, err := parse(t.URL, os.Getenv)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("nats: %w", err))
	}
	cfg.Logger = t.Logger
	if c.secret() && !c.tls.On && t.Logger != nil {
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
	e.AtClose(done)
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
	tls                          secure.TLS
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
	secured, err := c.tls.Config()
	if err != nil {
		return nil, err
	}
	if secured != nil {
		options = append(options, nats.Secure(secured))
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

// given is what a URL says of the user; "" is not given.
type given struct{ user, passwordFile, tokenFile, creds, nkey string }

// parse reads a URL, with what the environment has beside it.
func parse(u *url.URL, env func(string) string) (cfg Config, c *connection, err error) {
	at, err := drive.ParsePlace(u, defaultPort)
	if err != nil {
		return cfg, nil, err
	}
	var p secure.Parameters
	var who given
	if err := drive.ParseParameters(u.RawQuery, append([]drive.Parameter{
		drive.Duration("lease", &cfg.Lease), drive.Duration("max_lease", &cfg.MaxLease), drive.Duration("poll", &cfg.Poll),
		drive.Value("replicas", func(value string) error {
			if value != "1" && value != "3" && value != "5" {
				return fmt.Errorf("replicas=%.40s; want 1, 3 or 5", value)
			}
			cfg.Replicas = int(value[0] - '0')
			return nil
		}),
		drive.Era(&cfg.Era), drive.Text("flight", &cfg.Flight), drive.Choice("tls", &p.Switch), drive.Text("user", &who.user),
		drive.Text("password_file", &who.passwordFile), drive.Text("token_file", &who.tokenFile), drive.Text("creds", &who.creds), drive.Text("nkey", &who.nkey),
	}, p.Known()...)...); err != nil {
		return cfg, nil, err
	}
	if cfg.Bucket = strings.Trim(at.Path, "/"); cfg.Bucket != "" && !validBucket(cfg.Bucket) {
		return cfg, nil, fmt.Errorf("bucket %s; want letters, digits, underscores and dashes, as in nats://HOST/BUCKET", drive.Shown(cfg.Bucket))
	}
	c = &connection{several: len(at.Hosts)}
	others := secure.Parameters{Authority: env("NATS_CA"), Cert: env("NATS_CERT"), Key: env("NATS_KEY")}
	scheme := "nats://"
	if on, err := p.Complete(others, others.Given()); err != nil {
		return cfg, nil, err
	} else if on {
		scheme = "tls://"
		if c.tls, err = p.Read(); err != nil {
			return cfg, nil, err
		}
	}
	c.hosts = scheme + strings.Join(at.Hosts, ","+scheme)
	if err := c.credentials(&who, at.User, env); err != nil {
		return cfg, nil, err
	}
	// A way that is cut without a sign, and a server that is, are noticed after three of these, while the lease lasts.
	c.ping = min(max(cmp.Or(cfg.Lease, DefaultLease)/10, 50*time.Millisecond), time.Second)
	return cfg, c, nil
}

// credentials sets what a server is shown: credentials, an nkey, a token, or a user and its password. What the URL has
// is stronger than the environment.
func (c *connection) credentials(p *given, in *url.Userinfo, env func(string) string) error {
	password, hasPassword := in.Password()
	if in != nil && !hasPassword && p.passwordFile == "" && env("NATS_PASSWORD") == "" {
		// Other clients of NATS take that for a token, which would be shown with the URL.
		return errors.New("a user without a password in the URL; want USER with password_file=FILE or NATS_PASSWORD, or a token in token_file=FILE or NATS_TOKEN")
	}
	if in != nil && p.user != "" {
		return errors.New("a user before the host and in the parameter user; want one of them")
	}
	user := cmp.Or(in.Username(), p.user)
	ways := 0
	for _, is := range []bool{user != "" || p.passwordFile != "", p.tokenFile != "", p.creds != "", p.nkey != ""} {
		if is {
			ways++
		}
	}
	if ways > 1 {
		return errors.New("more than one of a user, token_file, creds and nkey; want one of them")
	}
	var err error
	switch {
	case p.creds != "":
		c.creds = p.creds
	case p.nkey != "":
		c.nkey = p.nkey
	case p.tokenFile != "":
		c.token, err = secretOf(p.tokenFile)
	case ways == 1:
		if c.user, c.password = user, password; p.passwordFile != "" {
			c.password, err = secretOf(p.passwordFile)
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
	text, err := drive.ReadPassword(file)
	if err == nil && text == "" {
		err = fmt.Errorf("%s is empty; want a password or a token", file)
	}
	return text, err
}
