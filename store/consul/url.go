package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
	"github.com/electd/elect/store/internal/secure"
)

// Open is the opener of URLs such as
//
//	consul://127.0.0.1:8500/jobs?lease=5s&dc=dc2
//	consul:///jobs
//
// The path is before the election's name in its key: here jobs/NAME. Without a path the key is the name. The port is
// 8500 if there is none, and 8501 with TLS. Without a host it is that of CONSUL_HTTP_ADDR, or 127.0.0.1. The parameters
// are
//
//	lease=5s  max_lease=15s  poll=1s  key=KEY  dc=NAME  ns=NAME  partition=NAME  era=N  flight=DIR
//
// as in [Config], and
//
//	socket=PATH  token_file=FILE  tls=on  cacert=FILE  cert=FILE  cert_key=FILE  server_name=NAME
//
// where each of the last four means tls=on. What the URL does not have is taken from the environment of Consul's own
// programs: CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN, CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_AUTH, CONSUL_HTTP_SSL,
// CONSUL_HTTP_SSL_VERIFY, CONSUL_CACERT, CONSUL_CAPATH, CONSUL_CLIENT_CERT, CONSUL_CLIENT_KEY, CONSUL_TLS_SERVER_NAME,
// CONSUL_NAMESPACE, CONSUL_PARTITION. A token is not in the URL. A user and a password there are those of a proxy
// before the agent, as in CONSUL_HTTP_AUTH.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	cfg, to, err := parse(t.URL, t.Name, os.Getenv)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("consul: %w", err))
	}
	cfg.Logger = t.Logger
	if t.Logger != nil && to.scheme == "http" && !to.near() && (to.token != "" || to.basic != nil) {
		t.Logger.Warn("the token for Consul is sent without TLS; want tls=on")
	}
	c, done, err := clients.Use(to.access, func() (*client, func() error, error) {
		c, err := to.client()
		return c, func() error { c.http.CloseIdleConnections(); return nil }, err
	})
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("consul: %w", err))
	}
	e, err := newElector(ctx, c, t.Name, t.ID, cfg, t.URL)
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
		cfg, to, err := parse(d.URL, d.Name, os.Getenv)
		if err != nil {
			return err
		}
		c, err := to.client()
		if err != nil {
			return err
		}
		defer c.http.CloseIdleConnections()
		return register.Free(ctx, &key{client: c, Config: cfg}, d)
	})
}

// access is what tells two connections apart. The elections of a process with the same one share a client. It contains
// the token.
type access struct {
	scheme, host, socket string
	token, tokenFile     string
	user, password       string
	tls                  secure.TLS
	anyCert              bool
}

// connection is how a client connects.
type connection struct {
	access
	basic *url.Userinfo // nil: none
}

// near reports whether the agent is on this machine.
func (t *connection) near() bool {
	host, _, _ := net.SplitHostPort(t.host)
	ip := net.ParseIP(host)
	return t.socket != "" || host == "localhost" || ip != nil && ip.IsLoopback()
}

// client returns a client without asking an agent. It reads files, so that what is wrong with them is said at once.
func (t *connection) client() (*client, error) {
	transport := secure.Transport()
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = mostWatches, 0
	if t.socket != "" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", t.socket)
		}
	}
	if t.scheme == "https" {
		var err error
		if transport.TLSClientConfig, err = t.tls.Config(); err != nil {
			return nil, err
		}
		transport.TLSClientConfig.InsecureSkipVerify = t.anyCert
	}
	c := newClient(t.scheme, t.host, &http.Client{Transport: transport}, t.tokenFile, t.token)
	c.basic = t.basic
	return c, c.token.read()
}

// parse reads a URL, with what the environment has beside it.
func parse(u *url.URL, name string, env func(string) string) (cfg Config, to *connection, err error) {
	if u.Opaque != "" {
		return cfg, nil, errors.New("several hosts, or no slashes; want consul://HOST:PORT/PREFIX with one agent, which knows the servers")
	}
	if _, err := drive.HostPort(u.Host, "1"); u.Host != "" && err != nil && strings.Contains(u.Path, "@") {
		return cfg, nil, errors.New("the host in the URL does not parse, and an @ is in its path; want consul://HOST:PORT/PREFIX, and %2F for a slash in a password")
	}
	to = &connection{basic: u.User}
	var socket string
	var p secure.Parameters
	if err := drive.ParseParameters(u.RawQuery, append([]drive.Parameter{
		drive.Duration("lease", &cfg.Lease), drive.Duration("max_lease", &cfg.MaxLease), drive.Duration("poll", &cfg.Poll), drive.Era(&cfg.Era),
		drive.Text("key", &cfg.Key), drive.Text("dc", &cfg.Datacenter), drive.Text("ns", &cfg.Namespace), drive.Text("partition", &cfg.Partition),
		drive.Text("flight", &cfg.Flight), drive.Text("socket", &socket), drive.Text("token_file", &to.tokenFile), drive.Choice("tls", &p.Switch),
		drive.Refuse("token", "a token in the URL, which other users may see; want token_file=FILE, CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE"),
		drive.Refuse("dialect", "dialect; want none: elections on Consul's own locks are not offered, see docs/consul.md"),
	}, p.Known()...)...); err != nil {
		return cfg, nil, err
	}
	if cfg.Key == "" {
		if cfg.Key = name; u.Path != "" && u.Path != "/" {
			cfg.Key = strings.Trim(u.Path, "/") + "/" + name
		}
	}
	cfg.Namespace, cfg.Partition = cmp.Or(cfg.Namespace, env("CONSUL_NAMESPACE")), cmp.Or(cfg.Partition, env("CONSUL_PARTITION"))
	if auth := env("CONSUL_HTTP_AUTH"); auth != "" && to.basic == nil {
		user, password, _ := strings.Cut(auth, ":")
		to.basic = url.UserPassword(user, password)
	}
	to.user = to.basic.Username()
	to.password, _ = to.basic.Password()
	if to.tokenFile == "" {
		if to.token = env("CONSUL_HTTP_TOKEN"); to.token == "" {
			to.tokenFile = env("CONSUL_HTTP_TOKEN_FILE")
		}
	}
	if err := checkToken(to.token); err != nil {
		return cfg, nil, fmt.Errorf("CONSUL_HTTP_TOKEN has %w", err)
	}
	on, err := to.secured(&p, env)
	if err != nil {
		return cfg, nil, err
	}
	if err := to.place(u.Host, socket, env("CONSUL_HTTP_ADDR"), on); err != nil || to.scheme != "https" {
		return cfg, to, err
	}
	return cfg, to, to.certificates(&p, env("CONSUL_CAPATH"))
}

// secured takes what the environment says of TLS, and reports whether TLS is asked for: its files alone do not ask.
func (t *connection) secured(p *secure.Parameters, env func(string) string) (bool, error) {
	ssl, verify := false, true
	for name, to := range map[string]*bool{"CONSUL_HTTP_SSL": &ssl, "CONSUL_HTTP_SSL_VERIFY": &verify} {
		if text := env(name); text != "" {
			var err error
			if *to, err = strconv.ParseBool(text); err != nil {
				return false, fmt.Errorf("%s=%.40s; want true or false", name, text)
			}
		}
	}
	t.anyCert = !verify
	return p.Complete(secure.Parameters{
		Authority: env("CONSUL_CACERT"), Cert: env("CONSUL_CLIENT_CERT"), Key: env("CONSUL_CLIENT_KEY"), ServerName: env("CONSUL_TLS_SERVER_NAME"),
	}, ssl)
}

// certificates reads the authority, which without a file may be in those of a directory.
func (t *connection) certificates(p *secure.Parameters, directory string) (err error) {
	if t.tls, err = p.Read(); err != nil || directory == "" || p.Authority != "" {
		return err
	}
	files, err := filepath.Glob(filepath.Join(directory, "*"))
	if err == nil {
		t.tls.Authority, err = secure.ReadAuthority(files...)
	}
	return err
}

// place sets where the agent is: a socket or a host of the URL, or the place of the environment, which may be
// HOST:PORT, a URL, or unix://PATH.
func (t *connection) place(host, socket, env string, secure bool) (err error) {
	if host == "" && socket == "" && env != "" {
		scheme, rest, found := strings.Cut(env, "://")
		if !found {
			scheme, rest = "", env
		}
		switch scheme {
		case "unix":
			socket = rest
		case "https":
			secure, host = true, rest
		case "", "http":
			host = rest
		}
		if host = strings.TrimSuffix(host, "/"); host == "" && socket == "" || strings.ContainsAny(host, "/@?#") {
			return errors.New("CONSUL_HTTP_ADDR; want HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix://PATH")
		}
	}
	if host != "" && socket != "" {
		return errors.New("a host and a socket; want one of them: consul:///PREFIX?socket=PATH")
	}
	if socket != "" && !filepath.IsAbs(socket) {
		return fmt.Errorf("socket=%.100s; want a path that begins with a slash", socket)
	}
	port := "8500"
	if t.scheme = "http"; secure {
		t.scheme, port = "https", "8501"
	}
	if t.socket = socket; host == "" {
		host = "127.0.0.1"
	}
	t.host, err = drive.HostPort(host, port)
	return err
}
