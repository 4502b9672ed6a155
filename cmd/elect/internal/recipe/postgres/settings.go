package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/config"
	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
	"github.com/electd/elect/driver"
)

// Settings is a whole configuration. All nodes have the same, but for id, data, state, bin, socket and certs.
type Settings struct {
	Name        string            `key:"name" required:"true" doc:"The name of the cluster, and of its election."`
	ID          string            `key:"id" required:"true" doc:"The id of this node, which is one of nodes."`
	Election    string            `key:"election" required:"true" doc:"URL of the place of the election, as for elect run --election."`
	Nodes       []NodeEntry       `key:"nodes" required:"true" doc:"All nodes that have the data, two or more."`
	Confirm     int               `key:"confirm" max:"16" doc:"How many other nodes have a commit on disk before the client is told. Default: half of the nodes, rounded down."`
	Data        string            `key:"data" required:"true" doc:"The data directory of PostgreSQL. An empty or missing one is filled: by initdb if no node has data, else by a copy of the primary."`
	State       string            `key:"state" doc:"Directory in which this node keeps what it has promised and which term its data is of. Default: that of data with .elect appended."`
	Bin         string            `key:"bin" doc:"Directory with initdb, postgres, pg_rewind and pg_basebackup, of version 15 or newer. Default: that of postgres in PATH."`
	Socket      string            `key:"socket" doc:"Directory of the Unix socket. Default: state."`
	Certs       string            `key:"certs" doc:"Directory with ca.crt, ID.crt and ID.key, made by elect certs, by which the nodes know each other."`
	Secret      string            `key:"secret-file" doc:"File with a secret of 16 bytes or more, by which nodes on loopback know each other without certificates."`
	HTTP        string            `key:"http" doc:"HOST:PORT of GET /primary, /replica, /health and /metrics, for load balancers. They need no authentication and change nothing."`
	Listen      string            `key:"listen" doc:"Where PostgreSQL listens, as its listen_addresses: * for all addresses of the machine, as a virtual address needs. Default: that of postgres in nodes."`
	Superuser   string            `key:"superuser" doc:"The role by which this program connects. Default: postgres."`
	Replication string            `key:"replication" doc:"The role of replicas. Default: replicator."`
	Password    string            `key:"password-file" doc:"File with the password of both roles. Required where a node is not on loopback."`
	Parameters  map[string]string `key:"parameters" doc:"Settings of PostgreSQL, by their names."`
	HBA         []string          `key:"hba" doc:"Lines of pg_hba.conf, for clients."`
	Probe       ProbeEntry        `key:"probe" doc:"How the primary is probed."`
	MaxLag      int               `key:"max-lag" max:"1048576" doc:"How far a replica may be behind, in MiB, to stand as a candidate and to be up for load balancers. Default: 1024."`
	Patience    time.Duration     `key:"patience" doc:"Time for which a winner waits for the answers of the others before it lets another one try. Default: 10s."`
	Grace       time.Duration     `key:"grace" doc:"Time for the orderly shutdown of a primary that hands over, after which it is an immediate one. Default: 10s."`
}

// NodeEntry is a node.
type NodeEntry struct {
	ID       string `key:"id" required:"true" doc:"Its id: letters, digits, . _ or -, at most 40."`
	Postgres string `key:"postgres" required:"true" doc:"HOST:PORT at which clients and replicas reach its PostgreSQL."`
	Control  string `key:"control" required:"true" doc:"HOST:PORT at which the other nodes reach this program."`
	Priority int    `key:"priority" max:"1000" doc:"Of nodes with the same WAL the greatest is promoted. Default: 0."`
}

// ProbeEntry is the probe of a primary.
type ProbeEntry struct {
	Every    time.Duration `key:"every" doc:"Time between two probes. Default: 1s."`
	Limit    time.Duration `key:"limit" doc:"Time after which a probe has failed. Default: 3s."`
	Failures int           `key:"failures" max:"1000" doc:"Failures in a row after which the primary gives way. Default: 3."`
}

// Schema is the JSON schema of Settings.
func Schema() []byte {
	return config.SchemaOf[Settings]("Configuration of elect recipe postgres")
}

// Read reads and completes a configuration. The error joins one for each thing that is wrong, with its line and column.
// place says what is wrong with the election, as far as somebody knows who has the back ends.
func Read(name string, text []byte, place func(*Settings) error) (*Settings, error) {
	s := &Settings{}
	doc, err := config.ReadInto(name, text, s)
	if err != nil {
		return nil, err
	}
	c := checker{Settings: s, doc: doc}
	c.names()
	c.nodes()
	c.election()
	c.paths()
	c.parameters()
	if err := place(s); c.errs == nil && err != nil {
		c.wrong("election", "%v", err)
	}
	if c.errs != nil {
		return nil, errors.Join(c.errs...)
	}
	return s, nil
}

// checker collects what is wrong.
type checker struct {
	*Settings
	doc  *config.Document
	errs []error
}

func (c *checker) wrong(field, format string, args ...any) {
	c.errs = append(c.errs, c.doc.Errorf(field, format, args...))
}

func (c *checker) names() {
	if err := driver.CheckName(c.Name); err != nil {
		c.wrong("name", "%v", err)
	}
	c.Superuser, c.Replication = cmp.Or(c.Superuser, "postgres"), cmp.Or(c.Replication, "replicator")
	if c.Superuser == c.Replication {
		c.wrong("replication", "it is the superuser, too; want another role")
	}
	for _, r := range [...]struct{ field, role string }{{"superuser", c.Superuser}, {"replication", c.Replication}} {
		if !simple(r.role, longestName) || strings.HasPrefix(r.role, "pg_") {
			c.wrong(r.field, "%q is no role; want letters, digits or _, and no pg_ before them", r.role)
		}
	}
	for _, f := range [...]struct {
		field string
		n     int
	}{{"probe.failures", c.Probe.Failures}, {"max-lag", c.MaxLag}} {
		if c.doc.Has(f.field) && f.n == 0 {
			c.wrong(f.field, "it is 0; want 1 or more")
		}
	}
	c.Probe.Every = cmp.Or(c.Probe.Every, time.Second)
	c.Probe.Limit = cmp.Or(c.Probe.Limit, 3*time.Second)
	c.Probe.Failures = cmp.Or(c.Probe.Failures, 3)
	c.MaxLag = cmp.Or(c.MaxLag, 1024)
	c.Patience, c.Grace = cmp.Or(c.Patience, 10*time.Second), cmp.Or(c.Grace, 10*time.Second)
	for _, f := range [...]struct {
		field       string
		time, least time.Duration
	}{
		{"patience", c.Patience, time.Second}, {"grace", c.Grace, time.Second},
		{"probe.every", c.Probe.Every, 100 * time.Millisecond}, {"probe.limit", c.Probe.Limit, 100 * time.Millisecond},
	} {
		if f.time < f.least {
			c.wrong(f.field, "%v is less than a node needs; want %v or more", f.time, f.least)
		}
	}
}

// longestName is of a name of PostgreSQL, in bytes.
const longestName = 63

// simple reports whether text is an identifier of at most most bytes.
func simple(text string, most int) bool {
	return text != "" && len(text) <= most && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

func (c *checker) nodes() {
	n := len(c.Nodes)
	ids, addresses, own := map[string]int{}, map[string]string{}, false
	for i, e := range c.Nodes {
		at := fmt.Sprintf("nodes[%d]", i)
		if bare := strings.Trim(e.ID, ".-"); !simple(strings.NewReplacer(".", "", "-", "").Replace(e.ID), 40) || len(e.ID) > 40 || bare == "" {
			c.wrong(at+".id", "%q is no id; want letters, digits, . _ or -, at most 40", e.ID)
		} else if slot := server.SlotName(e.ID); len(slot) > longestName {
			c.wrong(at+".id", "the name of its slot, %s, has %d bytes; want %d at most: a shorter id, or one of small letters and digits", slot, len(slot), longestName)
		}
		// PostgreSQL compares the names of standbys without regard to case.
		if first, twice := ids[strings.ToLower(e.ID)]; twice {
			c.wrong(at+".id", "%q is the id of nodes[%d], too, apart from capital letters; want different ids", e.ID, first)
		}
		ids[strings.ToLower(e.ID)], own = i, own || e.ID == c.ID
		for _, a := range [...]struct{ field, text string }{{at + ".postgres", e.Postgres}, {at + ".control", e.Control}} {
			host, port, err := net.SplitHostPort(a.text)
			if number, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || number < 1 || number > 65535 {
				c.wrong(a.field, "%q is no address; want HOST:PORT, such as 10.0.0.1:5432", a.text)
			} else if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
				c.wrong(a.field, "%q is no address that others reach; want that of a machine", a.text)
			}
			if other := addresses[a.text]; other != "" {
				c.wrong(a.field, "%q is that of %s, too; want different addresses", a.text, other)
			}
			addresses[a.text] = a.field
		}
	}
	if n == 1 {
		c.wrong("nodes", "there is one node; want two or more: a commit that no other node has is lost with it")
	}
	if !own {
		c.wrong("id", "%q is none of nodes; want one of them", c.ID)
	}
	if c.doc.Has("confirm") {
		if c.Confirm == 0 {
			c.wrong("confirm", "with 0 a commit that clients were told of is lost with the primary; want 1 to %d", max(n-1, 1))
		} else if c.Confirm >= n && n > 1 {
			c.wrong("confirm", "%d of %d other nodes cannot confirm; want 1 to %d", c.Confirm, n-1, n-1)
		}
	}
	c.Confirm = cmp.Or(c.Confirm, n/2)
	if c.Certs == "" && c.Secret == "" {
		c.wrong("", "there is neither certs nor secret-file; want certs: DIR as elect certs makes it, or on one machine secret-file: FILE")
	}
}

// Loopback reports whether all nodes are on this machine.
func (s *Settings) Loopback() bool {
	return !slices.ContainsFunc(s.Nodes, func(e NodeEntry) bool { return !loopback(e.Postgres) || !loopback(e.Control) })
}

func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c *checker) election() {
	u, err := elect.ParseURL(c.Election)
	if err != nil {
		return // the caller, who has the back ends, says what is wrong
	}
	local := c.Loopback()
	switch {
	case u.Scheme == "file" && !local:
		c.wrong("election", "file: elects on one machine, and nodes are on several; want an election that all of them reach, such as peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400")
	case u.Scheme == "postgres" || u.Scheme == "postgresql":
		for i, e := range c.Nodes {
			if strings.EqualFold(u.Host, e.Postgres) {
				c.wrong("election", "it is in nodes[%d] itself: without a primary nobody could be elected; want a place outside of this cluster, or peer:", i)
			}
		}
	}
	if c.Certs == "" && !local {
		c.wrong("secret-file", "a secret is for nodes on loopback, and others are on the network; want certs: DIR, as elect certs makes it")
	}
	if c.Certs != "" && c.Secret != "" {
		c.wrong("secret-file", "there are certs, too; want one of them")
	}
	if c.Password == "" && (!local || c.Listen != "") {
		c.wrong("", "there is no password-file, and replicas connect over the network, or others could; want one")
	}
	if strings.ContainsAny(c.Listen, "\n\r\x00") {
		c.wrong("listen", "it has a line break; want addresses with commas between them, or *")
	}
	if host, port, err := net.SplitHostPort(c.HTTP); c.HTTP != "" && (err != nil || host == "" || port == "") {
		c.wrong("http", "%q is no address; want HOST:PORT, such as 0.0.0.0:8008", c.HTTP)
	}
}

func (c *checker) paths() {
	for _, p := range [...]struct {
		field string
		path  *string
		or    string
	}{
		{"data", &c.Data, ""}, {"state", &c.State, filepath.Clean(c.Data) + ".elect"}, {"socket", &c.Socket, cmp.Or(c.State, filepath.Clean(c.Data)+".elect")},
		{"certs", &c.Certs, ""}, {"secret-file", &c.Secret, ""}, {"password-file", &c.Password, ""}, {"bin", &c.Bin, ""},
	} {
		if *p.path == "" {
			*p.path = p.or
		}
		if *p.path != "" && !filepath.IsAbs(*p.path) {
			c.wrong(p.field, "%q is relative; want an absolute path", *p.path)
			continue
		}
		if *p.path != "" {
			*p.path = filepath.Clean(*p.path)
		}
	}
	if rest, err := filepath.Rel(c.Data, c.State); err == nil && filepath.IsLocal(rest) {
		c.wrong("state", "%s is inside of data, which a copy replaces; want another directory", c.State)
	}
	if len(c.Socket) > 80 {
		c.wrong("socket", "%s has %d bytes, and the path of a Unix socket 107 at most; want a path of at most 80", c.Socket, len(c.Socket))
	}
}

func (c *checker) parameters() {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
		field, lower := "parameters."+name, strings.ToLower(name)
		value := c.Parameters[name]
		if first := seen[lower]; first != "" {
			c.wrong(field, "it is there as %s, too; want it once", first)
		}
		seen[lower] = name
		before := len(c.errs)
		if !simple(strings.ReplaceAll(name, ".", ""), longestName) {
			c.wrong(field, "%q is no name of a parameter; want letters, digits, _ or .", name)
			continue
		}
		if strings.ContainsAny(value, "\n\r\x00") {
			c.wrong(field, "its value has a line break; want one line")
		}
		err := server.CheckParameter(name, value)
		switch own, ok := errors.AsType[*server.ParameterError](err); {
		case err == nil || len(c.errs) > before:
		case !ok:
			c.wrong(field, "%v", err)
		case own.Want == nil:
			c.wrong(field, "it is not for users: %s; want it left out", own.Why)
		default:
			c.wrong(field, "with %q %s; want %s, or it left out", value, own.Why, own.Want[0])
		}
		if err := c.try(name, value); len(c.errs) == before && err != nil {
			c.wrong(field, "PostgreSQL does not start with it: %v; want a parameter that it knows, and a value that it takes", err)
		}
		for _, least := range [...]struct {
			name string
			n    int
		}{{"max_wal_senders", 2 * len(c.Nodes)}, {"max_replication_slots", len(c.Nodes)}} {
			if n, err := strconv.Atoi(value); lower == least.name && (err != nil || n < least.n) {
				c.wrong(field, "%q is too few for %d nodes; want %d or more", value, len(c.Nodes), least.n)
			}
		}
	}
	for i, line := range c.HBA {
		if why := wrongHBA(line); why != "" {
			c.wrong(fmt.Sprintf("hba[%d]", i), "%s", why)
		}
	}
}

// wrongHBA says what is wrong with a line of pg_hba.conf, or "". What it lets pass PostgreSQL checks at a reload.
func wrongHBA(line string) string {
	if strings.ContainsAny(line, "\n\r\x00") {
		return "it has a line break; want one line"
	}
	text, _, _ := strings.Cut(line, "#")
	text = regexp.MustCompile(`,[ \t]+`).ReplaceAllString(text, ",") // a list goes on after a comma
	words, method := strings.Fields(text), 4
	switch {
	case words == nil || slices.Contains([]string{"include", "include_if_exists", "include_dir"}, words[0]) || strings.Contains(line, `"`):
		return ""
	case words[0] == "local":
		method = 3
	case !slices.Contains([]string{"host", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc"}, words[0]):
		method = len(words)
	case len(words) > 4:
		if _, err := netip.ParseAddr(words[3]); err == nil { // a mask is next
			method = 5
		}
	}
	if len(words) <= method {
		return fmt.Sprintf("%q is no line of pg_hba.conf; want one such as host all all 10.0.0.0/24 scram-sha-256", line)
	}
	methods := []string{"trust", "reject", "scram-sha-256", "md5", "password", "gss", "sspi", "ident", "peer", "ldap", "radius", "cert", "pam", "bsd", "oauth"}
	if !slices.Contains(methods, words[method]) {
		return fmt.Sprintf("%q is no method of authentication; want %s", words[method], strings.Join(methods, ", "))
	}
	for _, option := range words[method+1:] {
		if !strings.Contains(option, "=") {
			return fmt.Sprintf("%q after the method is no option; want NAME=VALUE", option)
		}
	}
	return ""
}

// try asks PostgreSQL, where it is installed, about a parameter.
func (c *checker) try(name, value string) error {
	bin := c.Bin
	if bin == "" {
		path, err := exec.LookPath("postgres")
		if err != nil {
			return nil
		}
		bin = filepath.Dir(path)
	}
	return server.Try(bin, name, value)
}

// CheckLimits refuses an election whose leader cannot prove until when it leads.
func (s *Settings) CheckLimits(l elect.Limits) error {
	u, err := elect.ParseURL(s.Election)
	if err != nil {
		return err
	}
	if !l.Exclusive || l.Lease == 0 && u.Scheme != "file" {
		return fmt.Errorf("election: %s: has no lease, so that an old primary would not be stopped before another one is promoted; want one that has, such as peer: with its default protocol", u.Scheme)
	}
	return nil
}

// secret reads that of secret-file; "" if there is none.
func (s *Settings) secret() (string, error) { return config.ReadSecret("secret-file", s.Secret, 16) }

// node is the entry of an id.
func (s *Settings) node(id string) NodeEntry {
	i := slices.IndexFunc(s.Nodes, func(e NodeEntry) bool { return e.ID == id })
	return s.Nodes[i]
}

// cluster is how the nodes of a cluster call it among themselves: those that count otherwise do not talk.
func (s *Settings) cluster() string {
	return fmt.Sprintf("%s with confirm %d of %s", s.Name, s.Confirm, strings.Join(slices.Sorted(slices.Values(s.ids())), ", "))
}

// ids are those of all nodes.
func (s *Settings) ids() (all []string) {
	for _, e := range s.Nodes {
		all = append(all, e.ID)
	}
	return all
}
