package zookeeper

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/queue"
	"github.com/electd/elect/store/internal/secure"
)

// Open is the opener of URLs such as
//
//	zookeeper://10.0.0.1,10.0.0.2:2181,10.0.0.3/elections?lease=10s&user=jobs&password_file=/etc/elect/password
//
// The path is before the election's name, like a chroot: here /elections/NAME. Without a path it is /NAME. Missing
// znodes of it are created. The port is 2181 if there is none. The parameters are
//
//	lease=10s  hold=5s  max_hold=5s  poll=10s  era=N  path=PATH  layout=latch|selector|kazoo
//
// as in [Config], where path is that of the election, with its name, and
//
//	user=NAME  password_file=FILE  acl=ACL  tls=on  cacert=FILE  cert=FILE  cert_key=FILE  server_name=NAME
//
// where each of the four after tls means tls=on, and ACL is as in zkCli: world:anyone:r,auth::cdrwa.
func Open(ctx context.Context, t driver.Target) (driver.Elector, error) {
	c, err := parse(t.URL)
	if err != nil {
		return nil, driver.Permanent(fmt.Errorf("zookeeper: %w", err))
	}
	c.cfg.Logger = t.Logger
	if c.cfg.Password != "" && c.cfg.TLS == nil && t.Logger != nil {
		t.Logger.Warn("the password for ZooKeeper is sent without TLS; want tls=on")
	}
	e, err := newElector(ctx, c.servers, t.Name, t.ID, c.of(t.Name), c.tls, t.URL)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Witness is a supervise.Witness for leaders whose election was opened by [Open]: it deletes the dead leader's znode,
// so that the next leader need not wait for the session. It connects when it speaks, by the URL of the leader and the
// same files.
func Witness(_ context.Context, testament []byte) (speak func(context.Context) error, err error) {
	return drive.Witness(testament, func(ctx context.Context, d *drive.Deceased) error {
		c, err := parse(d.URL)
		if err != nil {
			return err
		}
		s, done, err := newStore(c.servers, d.Name, c.of(d.Name), c.tls)
		if err != nil {
			return err
		}
		freed := queue.Free(ctx, s, d)
		return errors.Join(freed, done())
	})
}

// place is what a URL says.
type place struct {
	servers []string
	cfg     Config
	prefix  string // of the path
	tls     secure.TLS
}

// of is the configuration of an election.
func (p *place) of(name string) Config {
	cfg := p.cfg
	if cfg.Path == "" {
		cfg.Path = strings.TrimSuffix(p.prefix, "/") + "/" + name
	}
	return cfg
}

// parse reads a URL.
func parse(u *url.URL) (p *place, err error) {
	at, err := drive.ParsePlace(u, "2181")
	if err != nil {
		return nil, err
	}
	if strings.Contains(at.Path, ",") {
		return nil, fmt.Errorf("the path %s has a comma; want all hosts before one path, or path=PATH", drive.Shown(at.Path))
	}
	p = &place{servers: at.Hosts, prefix: at.Path}
	var layout, file, acl string
	var t secure.Parameters
	if err := drive.ParseParameters(u.RawQuery, append([]drive.Parameter{
		drive.Duration("lease", &p.cfg.Lease), drive.Duration("hold", &p.cfg.Hold), drive.Duration("max_hold", &p.cfg.MaxHold), drive.Duration("poll", &p.cfg.Poll),
		drive.Era(&p.cfg.Era), drive.Text("path", &p.cfg.Path), drive.Text("layout", &layout), drive.Text("flight", &p.cfg.Flight),
		drive.Text("user", &p.cfg.User), drive.Text("password_file", &file), drive.Text("acl", &acl), drive.Choice("tls", &t.Switch),
	}, t.Known()...)...); err != nil {
		return nil, err
	}
	p.cfg.Layout = Layout(layout)
	if err := p.credentials(at.User, file); err != nil {
		return nil, err
	}
	if acl != "" {
		if p.cfg.ACL, err = parseACL(acl, p.cfg.User != ""); err != nil {
			return nil, err
		}
	}
	if on, err := t.Complete(secure.Parameters{}, false); err != nil || !on {
		return p, err
	}
	if p.tls, err = t.Read(); err == nil {
		p.cfg.TLS, err = p.tls.Config()
	}
	return p, err
}

// credentials sets user and password.
func (p *place) credentials(in *url.Userinfo, file string) (err error) {
	if in != nil {
		if p.cfg.User != "" {
			return errors.New("a user before the host and in the parameter user; want one of them")
		}
		p.cfg.User = in.Username()
		p.cfg.Password, _ = in.Password()
	}
	if file != "" {
		if p.cfg.Password, err = drive.ReadPassword(file); err != nil {
			return err
		}
	}
	if (p.cfg.User == "") != (p.cfg.Password == "") {
		return errors.New("a user without a password, or a password without a user; want both (password_file), or neither")
	}
	return nil
}

// parseACL reads an ACL as zkCli does: SCHEME:ID:RIGHTS, and a comma between two. The id of a digest is NAME:HASH.
func parseACL(text string, user bool) (all []zk.ACL, err error) {
	rights := map[rune]int32{'r': zk.PermRead, 'w': zk.PermWrite, 'c': zk.PermCreate, 'd': zk.PermDelete, 'a': zk.PermAdmin}
	shown := fmt.Sprintf("%.100s", text)
	if strings.Contains(strings.ToLower(text), "digest") {
		shown = "xxxxx" // it may have a password
	}
	for one := range strings.SplitSeq(text, ",") {
		first, last := strings.IndexByte(one, ':'), strings.LastIndexByte(one, ':')
		if first <= 0 || first == last || last == len(one)-1 {
			return nil, fmt.Errorf("acl=%s; want SCHEME:ID:RIGHTS such as world:anyone:r, and a comma between two", shown)
		}
		a := zk.ACL{Scheme: one[:first], ID: one[first+1 : last]}
		for _, r := range one[last+1:] {
			if rights[r] == 0 {
				return nil, fmt.Errorf("acl=%s has the right %q; want some of cdrwa", shown, r)
			}
			a.Perms |= rights[r]
		}
		switch {
		case a.Scheme == "auth" && !user:
			return nil, fmt.Errorf("acl=%s is for a user that has logged in; want user and password_file, too", shown)
		case a.Scheme == "digest" && !isDigest(a.ID):
			return nil, errors.New("acl with a digest that is none; want digest:NAME:HASH:RIGHTS, where HASH is 20 bytes in base64, as zkCli shows it")
		case a.Scheme != "world" && a.Scheme != "auth" && a.Scheme != "digest" && a.Scheme != "ip" && a.Scheme != "x509" && a.Scheme != "sasl":
			return nil, fmt.Errorf("acl=%s has the scheme %.40q; want world, auth, digest, ip, x509 or sasl", shown, a.Scheme)
		}
		all = append(all, a)
	}
	return all, nil
}

// isDigest reports whether an id is NAME:HASH, and not NAME:PASSWORD by mistake.
func isDigest(id string) bool {
	name, hash, _ := strings.Cut(id, ":")
	sum, err := base64.StdEncoding.DecodeString(hash)
	return name != "" && err == nil && len(sum) == sha1.Size
}
