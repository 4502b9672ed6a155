package redis

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/cmd/elect/internal/config"
	"github.com/electd/elect/driver"
)

// Settings is a whole configuration. All electors have the same, but for id, state and listen.
type Settings struct {
	Name      string         `key:"name" required:"true" doc:"The name of the master, by which clients ask for it; also that of the election."`
	Election  string         `key:"election" required:"true" doc:"URL of the election in which the electors stand, as for elect run --election."`
	ID        string         `key:"id" required:"true" doc:"This elector's id, which is one of electors."`
	State     string         `key:"state" required:"true" doc:"Directory in which this elector keeps what it has promised and who is master."`
	Listen    Listen         `key:"listen" doc:"The port with Sentinel's protocol."`
	Electors  []ElectorEntry `key:"electors" required:"true" doc:"All electors."`
	Secret    string         `key:"secret-file" doc:"File with the secret by which electors know each other, of 16 bytes or more. Required with more than one."`
	Servers   []ServerEntry  `key:"servers" required:"true" doc:"All Redis servers. A replica that is not here is neither promoted nor repointed."`
	Redis     Access         `key:"redis" doc:"How the servers are reached."`
	DownAfter time.Duration  `key:"down-after" doc:"Time without a valid answer after which a server is down. Default: 2s."`
	Quorum    int            `key:"quorum" max:"99" doc:"How many electors must see that the master is down. Default: a majority."`
	ToWrite   int            `key:"min-replicas-to-write" max:"99" doc:"The setting of each server: with fewer replicas it takes no write. Default: half of the servers, rounded down."`
	MaxLag    int            `key:"min-replicas-max-lag" max:"3600" doc:"The setting of each server, in seconds: a replica that was silent for longer does not count. Default: 2."`
	Unfenced  string         `key:"unfenced" enum:"wait,promote" doc:"What to do if an old master that cannot be reached might still take writes: wait until it can be reached, or promote a replica. Default: wait."`
	Fence     FenceEntry     `key:"fence" doc:"How a master that cannot be reached is ended for certain. Without it, time fences it."`
	Initial   string         `key:"initial-master" doc:"The id of the server that is master at the very beginning, if the servers do not show it."`
}

// Listen is the port of an elector.
type Listen struct {
	Address  string `key:"address" doc:"HOST:PORT. Default: this elector's address in electors."`
	Password string `key:"password-file" doc:"File with the password of clients. Without it they need none."`
	User     string `key:"user" doc:"The user that clients give. Default: default."`
	Cert     string `key:"cert" doc:"File with the certificate, in PEM. With it the port speaks TLS only."`
	Key      string `key:"key" doc:"File with its key."`
	CA       string `key:"ca" doc:"File with the certificates that sign those of the electors, in PEM."`
}

// ElectorEntry is an elector.
type ElectorEntry struct {
	ID      string `key:"id" required:"true" doc:"Its id."`
	Address string `key:"address" required:"true" doc:"HOST:PORT at which clients and electors reach it, such as 10.0.0.1:26379."`
}

// ServerEntry is a Redis server.
type ServerEntry struct {
	ID       string `key:"id" required:"true" doc:"Its id here."`
	Address  string `key:"address" required:"true" doc:"HOST:PORT at which electors and replicas reach it, such as 10.0.0.1:6379."`
	Announce string `key:"announce" doc:"HOST:PORT that clients are told. Default: its address."`
}

// FenceEntry is a command that ends a server for certain, such as one that switches its machine off.
type FenceEntry struct {
	Run   string        `key:"run" doc:"The command, for sh -c, with ELECT_SERVER and ELECT_SERVER_ADDRESS. Exit code 0 says that the server does not run, and will not start before somebody has looked."`
	Limit time.Duration `key:"limit" doc:"Time after which the command is killed, and has failed. Default: 10s."`
}

// Access is how servers are reached.
type Access struct {
	User            string `key:"user" doc:"The ACL user of the electors. Default: default."`
	Password        string `key:"password-file" doc:"File with its password."`
	ReplicaUser     string `key:"replica-user" doc:"The ACL user of replicas at their master. Default: that of the electors."`
	ReplicaPassword string `key:"replica-password-file" doc:"File with its password. Default: that of the electors."`
	TLS             bool   `key:"tls" doc:"The servers speak TLS."`
	CA              string `key:"ca" doc:"File with the certificates that sign those of the servers, in PEM. Default: those of the system."`
	Cert            string `key:"cert" doc:"File with this elector's certificate for servers that want one, in PEM."`
	Key             string `key:"key" doc:"File with its key."`
}

// Config is a configuration with all defaults.
type Config struct {
	Settings
	servers []server
}

// server is a Redis server as it is configured.
type server struct {
	id       string
	at       Address // as electors and replicas reach it
	announce Address // as clients do
}

func (s *server) addr() string { return net.JoinHostPort(s.at.Host, s.at.port()) }

// Title is that of the JSON schema.
const Title = "Configuration of elect recipe redis"

// Schema is the JSON schema of the configuration.
func Schema() []byte { return config.SchemaOf[Settings](Title) }

// Read reads a configuration and checks it. It opens nothing, and reads no file that the text names. The error joins a
// [config.Error] for each thing that is wrong.
func Read(name string, text []byte) (*Config, *config.Document, error) {
	c := &Config{}
	doc, err := config.ReadInto(name, text, &c.Settings)
	if err != nil {
		return nil, nil, err
	}
	k := checker{c: c, doc: doc}
	k.electors()
	k.serverList()
	k.numbers()
	k.paths()
	if k.errs != nil {
		return nil, nil, errors.Join(k.errs...)
	}
	return c, doc, nil
}

// checker finds what is wrong with a configuration, and fills in the defaults.
type checker struct {
	c    *Config
	doc  *config.Document
	errs []error
}

func (k *checker) wrong(field, format string, args ...any) {
	k.errs = append(k.errs, k.doc.Errorf(field, format, args...))
}

// address reads HOST:PORT. Redis puts a host into a line of its own configuration, so that it has no spaces.
func (k *checker) address(field, text string) Address {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	if err != nil || host == "" || bad != nil || n < 1 || n > 65535 || strings.ContainsAny(host, " \t\r\n\"'\\") {
		k.wrong(field, "%q is no address; want HOST:PORT, such as 10.0.0.1:6379", text)
	}
	return Address{host, n}
}

func (k *checker) electors() {
	c := k.c
	if err := driver.CheckName(c.Name); err != nil {
		k.wrong("name", "%v", err)
	}
	ids, addresses := map[string]bool{}, map[string]bool{}
	for i, e := range c.Electors {
		at := fmt.Sprintf("electors[%d]", i)
		if err := driver.CheckID(e.ID); err != nil {
			k.wrong(at+".id", "%v", err)
		}
		k.address(at+".address", e.Address)
		if ids[e.ID] || addresses[e.Address] {
			k.wrong(at, "its id or its address is that of another elector; want different ones")
		}
		ids[e.ID], addresses[e.Address] = true, true
		if e.ID == c.ID && c.Listen.Address == "" {
			c.Listen.Address = e.Address
		}
	}
	if !ids[c.ID] {
		k.wrong("id", "%q is not in electors; want one of them", c.ID)
	}
	if host, port, err := net.SplitHostPort(c.Listen.Address); ids[c.ID] && (err != nil || strings.ContainsAny(host, " /") || port == "") {
		k.wrong("listen.address", "%q is no address; want HOST:PORT, such as 0.0.0.0:26379", c.Listen.Address)
	}
	if len(c.Electors) > 1 && c.Secret == "" {
		k.wrong("electors", "there are several, and no secret-file by which they know each other; want one, the same at all")
	}
	if (c.Listen.Cert == "") != (c.Listen.Key == "") {
		k.wrong("listen", "cert and key belong together; want both, or none")
	}
	if (c.Listen.Cert != "") != (c.Listen.CA != "") {
		k.wrong("listen", "cert and ca belong together: electors ask each other at these ports; want both, or none")
	}
	if c.Listen.User != "" && c.Listen.Password == "" {
		k.wrong("listen.user", "there is no password for it; want password-file, too")
	}
}

func (k *checker) serverList() {
	c := k.c
	ids, addresses := map[string]bool{}, map[string]bool{}
	for i, e := range c.Servers {
		at := fmt.Sprintf("servers[%d]", i)
		if err := driver.CheckID(e.ID); err != nil {
			k.wrong(at+".id", "%v", err)
		}
		s := server{id: e.ID, at: k.address(at+".address", e.Address)}
		s.announce = s.at
		if e.Announce != "" {
			s.announce = k.address(at+".announce", e.Announce)
		}
		if ids[e.ID] || addresses[e.Address] {
			k.wrong(at, "its id or its address is that of another server; want different ones")
		}
		ids[e.ID], addresses[e.Address] = true, true
		c.servers = append(c.servers, s)
	}
	if c.Initial != "" && !ids[c.Initial] {
		k.wrong("initial-master", "%q is not in servers; want one of them", c.Initial)
	}
	if (c.Redis.Cert == "") != (c.Redis.Key == "") {
		k.wrong("redis", "cert and key belong together; want both, or none")
	}
	if !c.Redis.TLS && (c.Redis.CA != "" || c.Redis.Cert != "") {
		k.wrong("redis", "ca and cert are for TLS; want tls: true, too")
	}
	if c.Redis.User != "" && c.Redis.Password == "" {
		k.wrong("redis.user", "there is no password for it; want password-file, too")
	}
	if c.Redis.ReplicaUser != "" && c.Redis.ReplicaPassword == "" {
		k.wrong("redis.replica-user", "there is no password for it; want replica-password-file, too")
	}
}

// paths are absolute: a service manager starts an elector below /.
func (k *checker) paths() {
	c := k.c
	for _, f := range [][2]string{
		{"state", c.State}, {"secret-file", c.Secret}, {"listen.password-file", c.Listen.Password},
		{"listen.cert", c.Listen.Cert}, {"listen.key", c.Listen.Key}, {"listen.ca", c.Listen.CA},
		{"redis.password-file", c.Redis.Password}, {"redis.replica-password-file", c.Redis.ReplicaPassword},
		{"redis.ca", c.Redis.CA}, {"redis.cert", c.Redis.Cert}, {"redis.key", c.Redis.Key},
	} {
		if f[1] != "" && !filepath.IsAbs(f[1]) {
			k.wrong(f[0], "%q is relative; want an absolute path", f[1])
		}
	}
}

func (k *checker) numbers() {
	c := k.c
	if c.DownAfter == 0 {
		c.DownAfter = 2 * time.Second
	}
	if c.DownAfter < 100*time.Millisecond {
		k.wrong("down-after", "%v is less than a busy server may take to answer; want 100ms or more", c.DownAfter)
	}
	if !k.doc.Has("quorum") {
		c.Quorum = majority(len(c.Electors))
	}
	if c.Quorum < 1 || c.Quorum > len(c.Electors) {
		k.wrong("quorum", "it is %d, and there are %d electors; want 1 to %[2]d", c.Quorum, len(c.Electors))
	}
	if c.MaxLag == 0 {
		if k.doc.Has("min-replicas-max-lag") {
			k.wrong("min-replicas-max-lag", "0 is no limit to Redis; want 1 or more")
		}
		c.MaxLag = 2
	}
	if c.Unfenced == "" {
		c.Unfenced = "wait"
	}
	if k.doc.Has("fence") && c.Fence.Run == "" {
		k.wrong("fence", "there is no command; want run, or no fence")
	}
	if c.Fence.Limit == 0 {
		c.Fence.Limit = 10 * time.Second
	}
	n := len(c.servers)
	switch {
	case !k.doc.Has("min-replicas-to-write") && n == 2:
		k.wrong("servers", "there are two: with min-replicas-to-write: 1 there are no writes while one of them is down, and with 0 a master that is cut off goes on to take writes until a fence command ends it; want that setting, or a third server")
	case !k.doc.Has("min-replicas-to-write"):
		c.ToWrite = n / 2
	case c.ToWrite >= n && n > 0:
		k.wrong("min-replicas-to-write", "it is %d, and a master has at most %d replicas; want no more", c.ToWrite, n-1)
	}
	if c.ToWrite == 0 && n > 1 && c.Unfenced != "promote" && c.Fence.Run == "" {
		k.wrong("min-replicas-to-write", "with 0 nothing stops an old master that cannot be reached; want 1 or more, a fence command, or unfenced: promote, which accepts that it takes writes that are lost")
	}
}

// majority is the smallest number that two groups of n cannot both have.
func majority(n int) int { return n/2 + 1 }

// server returns the server with an id, or nil.
func (c *Config) server(id string) *server {
	i := slices.IndexFunc(c.servers, func(s server) bool { return s.id == id })
	if i < 0 {
		return nil
	}
	return &c.servers[i]
}

// poll is the time between two looks at a server.
func (c *Config) poll() time.Duration {
	return min(max(c.DownAfter/5, 20*time.Millisecond), time.Second)
}

// patience is how long one answer may take.
func (c *Config) patience() time.Duration { return max(c.DownAfter/2, c.poll()) }

// overdue is the age of the last good answer at which a server is late: a look, and a quarter of down-after. It doubles
// with each false alarm, up to down-after.
func (c *Config) overdue(alarms int) time.Duration {
	return c.poll() + min(c.DownAfter/4<<min(alarms, 4), c.DownAfter)
}

// fenceTime is how long after its last replica was taken away a master may still take writes: Redis compares whole
// seconds, once a second, which is up to two seconds more than min-replicas-max-lag; and a tenth is for clock rates and
// timers.
func (d *Decision) fenceTime() time.Duration {
	t := time.Duration(d.Lag+2) * time.Second
	return t + t/10
}
