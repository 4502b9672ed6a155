package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/queue"
)

// Open is the opener of URLs such as
//
//	etcd://10.0.0.1,10.0.0.2:2379,10.0.0.3/jobs?lease=10s&cacert=/etc/etcd/ca.crt
//
// The path is before the election's name in its key: here /jobs/NAME. Without a path the key is the
// name. The port is 2379 if there is none. The parameters are
//
//	lease=10s  hold=5s  max_hold=5s  poll=20s  server_election=1s  servers_fixed=on  era=N  key=KEY
//
// as in [Config], and
//
//	tls=on  cacert=FILE  cert=FILE  cert_key=FILE  server_name=NAME  user=NAME  password_file=FILE
//
// where each of the files before server_name means tls=on. What the URL does not have is taken from
// the environment of etcdctl: ETCDCTL_USER (NAME or NAME:PASSWORD), ETCDCTL_PASSWORD,
// ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	cfg, client, err := parse(t.URL, t.Name, os.Getenv)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("etcd: %w", err))
	}
	cfg.Logger = t.Logger
	if client.Password != "" && client.TLS == nil && t.Logger != nil {
		t.Logger.Warn("the password for etcd is sent without TLS; want tls=on")
	}
	c, done, err := clients.Use(client.access(), func() (*clientv3.Client, func() error, error) {
		c, err := client.open()
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	})
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("etcd: %w", err))
	}
	owner, err := newElector(ctx, c, t.Name, t.ID, cfg, t.URL)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	closed := owner.close
	owner.close = sync.OnceValue(func() error { return errors.Join(closed(), done()) })
	return owner, nil
}

// Witness is a supervise.Witness for leaders whose election was opened by [Open]: it deletes the dead leader's key, so
// that the next one need not wait for the lease. It connects when it speaks, by the URL of the leader and the same
// files and environment.
func Witness(_ context.Context, testament []byte) (speak func(context.Context) error, err error) {
	return drive.Witness(testament, func(ctx context.Context, d *drive.Deceased) error {
		cfg, client, err := parse(d.URL, d.Name, os.Getenv)
		if err != nil {
			return err
		}
		c, err := client.open()
		if err != nil {
			return err
		}
		defer c.Close()
		return queue.Free(ctx, &store{client: c, key: cfg.Key}, d)
	})
}

// connection is how a client connects.
type connection struct {
	clientv3.Config
	authority, cert string // the certificates of the authority, and the files of the own one
}

// access is what tells two connections apart. The elections of a process with the same one share a
// client. It contains the password.
type access struct {
	endpoints, user, password     string
	tls                           bool
	serverName, authority, myCert string
}

// open returns a client without asking a server: with a user, clientv3.New asks one for a token, and fails if none
// answers. So the client begins with a token that no server has given. A server refuses that, and then the client asks
// for one by itself, as it does when a token has expired.
func (c *connection) open() (*clientv3.Client, error) {
	cfg := c.Config
	if cfg.Username != "" {
		cfg.Username, cfg.Password, cfg.Token = "", "", "none"
	}
	client, err := clientv3.New(cfg)
	if err == nil && c.Username != "" {
		client.Username, client.Password, client.Token = c.Username, c.Password, ""
	}
	return client, err
}

func (c *connection) access() access {
	a := access{endpoints: strings.Join(c.Endpoints, ","), user: c.Username, password: c.Password}
	if c.TLS != nil {
		a.tls, a.serverName, a.authority, a.myCert = true, c.TLS.ServerName, c.authority, c.cert
	}
	return a
}

// parse reads a URL, with what the environment has beside it.
func parse(u *url.URL, name string, env func(string) string) (cfg Config, client *connection, err error) {
	at, err := drive.ParsePlace(u, "2379")
	if err != nil {
		return cfg, nil, err
	}
	p, err := parameters(u.RawQuery, &cfg)
	if err != nil {
		return cfg, nil, err
	}
	if cfg.Key = p["key"]; cfg.Key == "" {
		if cfg.Key = name; at.Path != "" {
			cfg.Key = strings.TrimSuffix(at.Path, "/") + "/" + name
		}
	}
	client = &connection{Config: clientv3.Config{
		Logger: zap.NewNop(), DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	}}
	if err = client.secure(p, env); err != nil {
		return cfg, nil, err
	}
	if client.Username, client.Password, err = credentials(p, at.User, env); err != nil {
		return cfg, nil, err
	}
	scheme := "http://"
	if client.TLS != nil {
		scheme = "https://"
	}
	for _, host := range at.Hosts {
		client.Endpoints = append(client.Endpoints, scheme+host)
	}
	return cfg, client, nil
}

// parameters reads a query into cfg, and returns what is not in it.
func parameters(query string, cfg *Config) (map[string]string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	times := map[string]*time.Duration{
		"lease": &cfg.Lease, "hold": &cfg.Hold, "max_hold": &cfg.MaxHold, "poll": &cfg.Poll, "server_election": &cfg.ServerElection,
	}
	p := map[string]string{}
	for key, all := range values {
		value := all[0]
		if len(all) != 1 || value == "" {
			return nil, fmt.Errorf("%.40s is empty, or given %d times; want it once", key, len(all))
		}
		switch key {
		case "lease", "hold", "max_hold", "poll", "server_election":
			if *times[key], err = time.ParseDuration(value); err != nil || *times[key] <= 0 {
				return nil, fmt.Errorf("%s=%.40s; want a time such as 5s", key, value)
			}
		case "era":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("era=%.40s; want 0 to 65535", value)
			}
			cfg.Era = uint16(n)
		case "servers_fixed", "tls":
			if value != "on" && value != "off" {
				return nil, fmt.Errorf("%s=%.40s; want on or off", key, value)
			}
			cfg.ServersFixed = cfg.ServersFixed || key == "servers_fixed" && value == "on"
			p[key] = value
		case "key", "cacert", "cert", "cert_key", "server_name", "user", "password_file":
			p[key] = value
		case "flight":
			cfg.Flight = value
		default:
			return nil, fmt.Errorf("unknown parameter %.40q; want lease, hold, max_hold, poll, server_election, servers_fixed, era, key, flight, tls, cacert, cert, cert_key, server_name, user or password_file", key)
		}
	}
	return p, nil
}

// secure sets how connections are secured, if they are.
func (c *connection) secure(p map[string]string, env func(string) string) error {
	cacert, cert, key := cmp.Or(p["cacert"], env("ETCDCTL_CACERT")), cmp.Or(p["cert"], env("ETCDCTL_CERT")), cmp.Or(p["cert_key"], env("ETCDCTL_KEY"))
	files := cacert != "" || cert != "" || key != ""
	switch {
	case p["tls"] == "off" && (p["cacert"] != "" || p["cert"] != "" || p["cert_key"] != "" || p["server_name"] != ""):
		return errors.New("tls=off, and parameters of TLS; want tls=on")
	case p["tls"] == "off", p["tls"] == "" && !files:
		return nil
	case cert == "" != (key == ""):
		return errors.New("one of cert and cert_key; want both, or neither")
	}
	c.TLS = &tls.Config{ServerName: p["server_name"], MinVersion: tls.VersionTLS12}
	if name := p["server_name"]; name != "" { // else gRPC takes the host of the URL
		c.DialOptions = append(c.DialOptions, grpc.WithAuthority(name))
	}
	if cacert != "" {
		text, err := os.ReadFile(cacert)
		if err != nil {
			return err
		}
		if c.TLS.RootCAs = x509.NewCertPool(); !c.TLS.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s has no certificate; want PEM", cacert)
		}
		c.authority = string(text)
	}
	if cert != "" {
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return err
		}
		c.cert = cert + "\x00" + key
		c.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // it may have been renewed
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}
	}
	return nil
}

// credentials returns user and password, each "" if there is none.
func credentials(p map[string]string, in *url.Userinfo, env func(string) string) (user, password string, err error) {
	user, password, _ = strings.Cut(env("ETCDCTL_USER"), ":")
	password = cmp.Or(password, env("ETCDCTL_PASSWORD"))
	if p["user"] != "" && in != nil {
		return "", "", errors.New("a user before the host and in the parameter user; want one of them")
	}
	if name := cmp.Or(p["user"], in.Username()); name != "" {
		if own, has := in.Password(); has {
			password = own
		} else if name != user && user != "" {
			password = env("ETCDCTL_PASSWORD") // the other one is of another user
		}
		user = name
	}
	if file := p["password_file"]; file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		password = strings.TrimRight(string(text), "\r\n")
	}
	if user == "" != (password == "") {
		return "", "", errors.New("a user without a password, or a password without a user; want both (password_file, ETCDCTL_PASSWORD), or neither")
	}
	return user, password, nil
}
