package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/queue"
	"github.com/electd/elect/store/internal/secure"
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
// where each of the four after tls means tls=on. What the URL does not have is taken from
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
	owner.AtClose(done)
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
	secure secure.TLS
}

// access is what tells two connections apart. The elections of a process with the same one share a
// client. It contains the password.
type access struct {
	endpoints, user, password string
	tls                       secure.TLS
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
	return access{endpoints: strings.Join(c.Endpoints, ","), user: c.Username, password: c.Password, tls: c.secure}
}

// parse reads a URL, with what the environment has beside it.
func parse(u *url.URL, name string, env func(string) string) (cfg Config, client *connection, err error) {
	at, err := drive.ParsePlace(u, "2379")
	if err != nil {
		return cfg, nil, err
	}
	var user, file, fixed string
	var p secure.Parameters
	if err := drive.ParseParameters(u.RawQuery, append([]drive.Parameter{
		drive.Duration("lease", &cfg.Lease), drive.Duration("hold", &cfg.Hold), drive.Duration("max_hold", &cfg.MaxHold), drive.Duration("poll", &cfg.Poll),
		drive.Duration("server_election", &cfg.ServerElection), drive.Choice("servers_fixed", &fixed), drive.Era(&cfg.Era), drive.Text("key", &cfg.Key),
		drive.Text("flight", &cfg.Flight), drive.Text("user", &user), drive.Text("password_file", &file), drive.Choice("tls", &p.Switch),
	}, p.Known()...)...); err != nil {
		return cfg, nil, err
	}
	if cfg.ServersFixed = fixed == "on"; cfg.Key == "" {
		if cfg.Key = name; at.Path != "" {
			cfg.Key = strings.TrimSuffix(at.Path, "/") + "/" + name
		}
	}
	client = &connection{Config: clientv3.Config{
		Logger: zap.NewNop(), DialTimeout: 5 * time.Second, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	}}
	if err = client.secured(&p, env); err != nil {
		return cfg, nil, err
	}
	if client.Username, client.Password, err = credentials(user, file, at.User, env); err != nil {
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

// secured sets how connections are secured. As for etcdctl, a file of the environment means TLS.
func (c *connection) secured(p *secure.Parameters, env func(string) string) error {
	others := secure.Parameters{Authority: env("ETCDCTL_CACERT"), Cert: env("ETCDCTL_CERT"), Key: env("ETCDCTL_KEY")}
	on, err := p.Complete(others, others.Given())
	if err != nil || !on {
		return err
	}
	if c.secure, err = p.Read(); err != nil {
		return err
	}
	if p.ServerName != "" { // else gRPC takes the host of the URL
		c.DialOptions = append(c.DialOptions, grpc.WithAuthority(p.ServerName))
	}
	c.TLS, err = c.secure.Config()
	return err
}

// credentials returns user and password, each "" if there is none.
func credentials(own, file string, in *url.Userinfo, env func(string) string) (user, password string, err error) {
	user, password, _ = strings.Cut(env("ETCDCTL_USER"), ":")
	password = cmp.Or(password, env("ETCDCTL_PASSWORD"))
	if own != "" && in != nil {
		return "", "", errors.New("a user before the host and in the parameter user; want one of them")
	}
	if name := cmp.Or(own, in.Username()); name != "" {
		if text, has := in.Password(); has {
			password = text
		} else if name != user && user != "" {
			password = env("ETCDCTL_PASSWORD") // the other one is of another user
		}
		user = name
	}
	if file != "" {
		if password, err = drive.ReadPassword(file); err != nil {
			return "", "", err
		}
	}
	if user == "" != (password == "") {
		return "", "", errors.New("a user without a password, or a password without a user; want both (password_file, ETCDCTL_PASSWORD), or neither")
	}
	return user, password, nil
}
