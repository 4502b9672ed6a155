package consul

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
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
// CONSUL_NAMESPACE, CONSUL_PARTITION. A token is not in the URL. A user and a password there are those of a proxy before
// the agent, as in CONSUL_HTTP_AUTH.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	cfg, to, err := parse(t.URL, t.Name, os.Getenv)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("consul: %w", err))
	}
	cfg.Logger = t.Logger
	if t.Logger != nil && to.scheme == "http" && !to.near() && (to.token != "" || to.basic != nil) {
		t.Logger.Warn("the token for Consul is sent without TLS; want tls=on")
	}
	c, done, err := agents.Use(to.access, func() (*client, func() error, error) {
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
	e.done = done
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

// access is what tells two agents, and two ways to one, apart. The elections of a process with the same one share
// connections. It contains the token.
type access struct {
	scheme, host, socket      string
	token, tokenFile          string
	user, password            string
	cacert, capath            string
	cert, certKey, serverName string
	anyCert                   bool
}

// target is an agent with what its client needs beside that.
type target struct {
	access
	basic *url.Userinfo // nil: none
}

// near reports whether no network is between.
func (t *target) near() bool {
	host, _, _ := net.SplitHostPort(t.host)
	ip := net.ParseIP(host)
	return t.socket != "" || host == "localhost" || ip != nil && ip.IsLoopback()
}

// client returns a client. It reads the files of TLS, so that what is wrong with them is said at once.
func (t *target) client() (*client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = mostWatches, 0
	if t.socket != "" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", t.socket)
		}
	}
	if t.scheme == "https" {
		var err error
		if transport.TLSClientConfig, err = t.secure(); err != nil {
			return nil, err
		}
	}
	c := newClient(t.scheme, t.host, &http.Client{Transport: transport}, t.tokenFile, t.token)
	c.basic = t.basic
	return c, c.token.read()
}

// secure is how connections are secured. A certificate may be renewed.
func (t *target) secure() (*tls.Config, error) {
	c := &tls.Config{ServerName: t.serverName, MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.anyCert}
	files := []string{t.cacert}
	if t.capath != "" && t.cacert == "" {
		var err error
		if files, err = filepath.Glob(filepath.Join(t.capath, "*")); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if c.RootCAs == nil {
			c.RootCAs = x509.NewCertPool()
		}
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate; want PEM", file)
		}
	}
	if t.cert != "" {
		if _, err := tls.LoadX509KeyPair(t.cert, t.certKey); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.cert, t.certKey)
			return &pair, err
		}
	}
	return c, nil
}

// parse reads a URL, with what the environment has beside it.
func parse(u *url.URL, name string, env func(string) string) (cfg Config, to *target, err error) {
	if u.Opaque != "" {
		return cfg, nil, errors.New("several hosts, or no slashes; want consul://HOST:PORT/PREFIX with one agent, which knows the servers")
	}
	p, err := parameters(u.RawQuery, &cfg)
	if err != nil {
		return cfg, nil, err
	}
	if cfg.Key = p["key"]; cfg.Key == "" {
		if cfg.Key = name; u.Path != "" && u.Path != "/" {
			cfg.Key = strings.Trim(u.Path, "/") + "/" + name
		}
	}
	cfg.Datacenter = p["dc"]
	cfg.Namespace, cfg.Partition = cmp.Or(p["ns"], env("CONSUL_NAMESPACE")), cmp.Or(p["partition"], env("CONSUL_PARTITION"))
	to = &target{basic: u.User}
	if auth := env("CONSUL_HTTP_AUTH"); auth != "" && to.basic == nil {
		user, password, _ := strings.Cut(auth, ":")
		to.basic = url.UserPassword(user, password)
	}
	to.user = to.basic.Username()
	to.password, _ = to.basic.Password()
	to.tokenFile = p["token_file"]
	if to.tokenFile == "" {
		if to.token = env("CONSUL_HTTP_TOKEN"); to.token == "" {
			to.tokenFile = env("CONSUL_HTTP_TOKEN_FILE")
		}
	}
	if err := checkToken(to.token); err != nil {
		return cfg, nil, fmt.Errorf("CONSUL_HTTP_TOKEN has %w", err)
	}
	secure, err := to.certificates(p, env)
	if err != nil {
		return cfg, nil, err
	}
	return cfg, to, to.place(u.Host, p["socket"], env("CONSUL_HTTP_ADDR"), secure)
}

// certificates takes the files of TLS, and reports whether TLS is asked for.
func (t *target) certificates(p map[string]string, env func(string) string) (bool, error) {
	named := p["cacert"] != "" || p["cert"] != "" || p["cert_key"] != "" || p["server_name"] != ""
	ssl, verify := false, true
	for name, to := range map[string]*bool{"CONSUL_HTTP_SSL": &ssl, "CONSUL_HTTP_SSL_VERIFY": &verify} {
		if text := env(name); text != "" {
			var err error
			if *to, err = strconv.ParseBool(text); err != nil {
				return false, fmt.Errorf("%s=%.40s; want true or false", name, text)
			}
		}
	}
	if p["tls"] == "off" && named {
		return false, errors.New("tls=off, and parameters of TLS; want tls=on")
	}
	t.cacert, t.capath = cmp.Or(p["cacert"], env("CONSUL_CACERT")), env("CONSUL_CAPATH")
	t.cert, t.certKey = cmp.Or(p["cert"], env("CONSUL_CLIENT_CERT")), cmp.Or(p["cert_key"], env("CONSUL_CLIENT_KEY"))
	t.serverName, t.anyCert = cmp.Or(p["server_name"], env("CONSUL_TLS_SERVER_NAME")), !verify
	if t.cert == "" != (t.certKey == "") {
		return false, errors.New("one of cert and cert_key; want both, or neither")
	}
	return p["tls"] == "on" || p["tls"] == "" && (named || ssl), nil
}

// place sets where the agent is: a socket or a host of the URL, or the place of the environment, which may be
// HOST:PORT, a URL, or unix://PATH.
func (t *target) place(host, socket, env string, secure bool) error {
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
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	if !drive.IsHostPort(host) {
		return fmt.Errorf("host %.100q; want HOST or HOST:PORT", host)
	}
	t.host = host
	return nil
}

// parameters reads a query into cfg, and returns what is not in it.
func parameters(query string, cfg *Config) (map[string]string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
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
		case "tls":
			if value != "on" && value != "off" {
				return nil, fmt.Errorf("tls=%.40s; want on or off", value)
			}
			p[key] = value
		case "key", "dc", "ns", "partition", "socket", "token_file", "cacert", "cert", "cert_key", "server_name":
			p[key] = value
		case "flight":
			cfg.Flight = value
		case "token":
			return nil, errors.New("a token in the URL, which other users may see; want token_file=FILE, CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE")
		case "dialect":
			return nil, errors.New("dialect; want none: elections on Consul's own locks are not offered, see docs/consul.md")
		default:
			return nil, fmt.Errorf("unknown parameter %.40q; want lease, max_lease, poll, era, key, dc, ns, partition, flight, socket, token_file, tls, cacert, cert, cert_key or server_name", key)
		}
	}
	return p, nil
}
