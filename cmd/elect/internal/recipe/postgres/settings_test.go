package postgres

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/electd/elect"
)

// base is a whole configuration; replacements make it wrong.
const base = `name: orders
id: n1
election: peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs
data: /var/lib/postgresql/orders
certs: /etc/elect/certs
password-file: /etc/elect/postgres.password
confirm: 1
nodes:
  - {id: n1, postgres: "10.0.0.1:5432", control: "10.0.0.1:8432"}
  - {id: n2, postgres: "10.0.0.2:5432", control: "10.0.0.2:8432"}
  - {id: n3, postgres: "10.0.0.3:5432", control: "10.0.0.3:8432"}
parameters:
  synchronous_commit: "on"
`

func anywhere(*Settings) error { return nil }

func TestRead(t *testing.T) {
	s, err := Read("pg.yaml", []byte(base), anywhere)
	if err != nil {
		t.Fatal(err)
	}
	if s.State != "/var/lib/postgresql/orders.elect" || s.Confirm != 1 || s.MaxLag != 1024 {
		t.Errorf("%+v; want the defaults", s)
	}
	if why := wrongHBA("host orders,\tbills, \t stock all 10.0.0.0/8 md5"); why != "" {
		t.Errorf("a list with tabs after its commas: %s", why)
	}
	for _, c := range []struct{ old, replacement, want string }{
		{"confirm: 1", "confirm: 0", `pg.yaml:7:10: confirm: with 0 a commit that clients were told of is lost with the primary; want 1 to 2`},
		{"confirm: 1", "confirm: 3", `pg.yaml:7:10: confirm: 3 of 2 other nodes cannot confirm; want 1 to 2`},
		{`synchronous_commit: "on"`, `synchronous_commit: "off"`, `pg.yaml:13:23: parameters.synchronous_commit: with "off" a commit would be acknowledged that no replica has on disk; want on, or it left out`},
		{`synchronous_commit: "on"`, `synchronous_commit: local`, `parameters.synchronous_commit: with "local"`},
		{`synchronous_commit: "on"`, `synchronous_commit: remote_write`, `parameters.synchronous_commit: with "remote_write"`},
		{`synchronous_commit: "on"`, `fsync: "off"`, `parameters.fsync: with "off" what a node has confirmed could be gone`},
		{`synchronous_commit: "on"`, `FSYNC: "off"`, `parameters.FSYNC: with "off" what a node has confirmed could be gone`},
		{`synchronous_commit: "on"`, `full_page_writes: "no"`, `parameters.full_page_writes: with "no"`},
		{`synchronous_commit: "on"`, `synchronous_standby_names: "*"`, `parameters.synchronous_standby_names: it is not for users: it is confirm; want it left out`},
		{`synchronous_commit: "on"`, `restore_command: cp`, `it is not for users: an archive may have WAL of a primary that was given up`},
		{`synchronous_commit: "on"`, `primary_conninfo: host=x`, `it is not for users`},
		{`synchronous_commit: "on"`, `max_wal_senders: "2"`, `"2" is too few for 3 nodes; want 6 or more`},
		{`synchronous_commit: "on"`, `wal_level: minimal`, `there would be nothing to replicate`},
		{"id: n1\n", "id: n4\n", `pg.yaml:2:5: id: "n4" is none of nodes; want one of them`},
		{"id: n2,", "id: n1,", `nodes[1].id: "n1" is the id of nodes[0], too`},
		{"id: n2,", "id: N1,", `nodes[1].id: "N1" is the id of nodes[0], too, apart from capital letters; want different ids`},
		{"id: n2,", "id: DB-FRANKFURT-01-PRIMARY,", `has 71 bytes; want 63 at most: a shorter id, or one of small letters and digits`},
		{"confirm: 1", "patience: 1ms", `pg.yaml:7:11: patience: 1ms is less than a node needs; want 1s or more`},
		{"confirm: 1", "probe: {every: 1ms}", `probe.every: 1ms is less`},
		{"confirm: 1", "max-lag: 0", `pg.yaml:7:10: max-lag: it is 0; want 1 or more`},
		{"confirm: 1", "hba: [includefoo]", `hba[0]: "includefoo" is no line of pg_hba.conf`},
		{"confirm: 1", "hba: [host all all 10.0.0.0 255.255.255.0]", `is no line of pg_hba.conf`},
		{"confirm: 1", "hba: [host all all 10.0.0.0/8 scram-sha256]", `hba[0]: "scram-sha256" is no method of authentication; want trust, reject, scram-sha-256`},
		{"confirm: 1", "hba: [host all all 10.0.0.0/8 md5 map]", `hba[0]: "map" after the method is no option; want NAME=VALUE`},
		{`"10.0.0.2:5432"`, `"10.0.0.1:5432"`, `nodes[1].postgres: "10.0.0.1:5432" is that of nodes[0].postgres, too`},
		{`"10.0.0.2:5432"`, `"0.0.0.0:5432"`, `is no address that others reach`},
		{`"10.0.0.2:5432"`, `"10.0.0.2"`, `want HOST:PORT`},
		{"election: peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs", "election: file:/var/lib/elect", `pg.yaml:3:11: election: file: elects on one machine, and nodes are on several`},
		{"election: peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs", "election: postgres://10.0.0.1:5432/elect", `election: it is in nodes[0] itself`},
		{"certs: /etc/elect/certs\n", "secret-file: /etc/s\n", `secret-file: a secret is for nodes on loopback`},
		{"certs: /etc/elect/certs\n", "", `there is neither certs nor secret-file`},
		{"password-file: /etc/elect/postgres.password\n", "", `there is no password-file, and replicas connect over the network`},
		{"data: /var/lib/postgresql/orders", "data: orders", `data: "orders" is relative; want an absolute path`},
		{"confirm: 1", "state: /var/lib/postgresql/orders/state", `is inside of data, which a copy replaces`},
		{"confirm: 1", "replicas: 1", `pg.yaml:7:1: replicas: there is no such field`},
		{"confirm: 1", "hba: [nonsense here too for five]", `pg.yaml:7:7: hba[0]: "nonsense here too for five" is no line of pg_hba.conf; want one such as host all all 10.0.0.0/24 scram-sha-256`},
		{"confirm: 1", "hba: [local all all trust, host all all trust]", `hba[1]: "host all all trust" is no line of pg_hba.conf`},
		{"confirm: 1", "superuser: pg_me", `superuser: "pg_me" is no role`},
	} {
		text := strings.Replace(base, c.old, c.replacement, 1)
		if text == base {
			t.Fatalf("%q is not in the configuration", c.old)
		}
		if _, err := Read("pg.yaml", []byte(text), anywhere); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n  %v\nwant\n  %s", c.replacement, err, c.want)
		}
	}
}

func TestOneNode(t *testing.T) {
	text := base[:strings.Index(base, "  - {id: n2")]
	if _, err := Read("pg.yaml", []byte(text), anywhere); err == nil || !strings.Contains(err.Error(), "there is one node; want two or more") {
		t.Errorf("%v; want that one node is refused", err)
	}
}

func TestLimits(t *testing.T) {
	s, err := Read("pg.yaml", []byte(base), anywhere)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limits elect.Limits
		ok     bool
	}{{elect.Limits{Exclusive: true, Lease: 1}, true}, {elect.Limits{Exclusive: true}, false}, {elect.Limits{Lease: 1}, false}} {
		if err := s.CheckLimits(c.limits); (err == nil) != c.ok {
			t.Errorf("%+v: %v; want an error: %v", c.limits, err, !c.ok)
		}
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir() + "/state"
	f, err := openState(dir, "orders", "n1")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.load(); err != nil || s.Whole || s.SystemID != 0 {
		t.Fatalf("%+v, %v; want an empty one", s, err)
	}
	if _, err := openState(dir, "orders", "n1"); err == nil || !strings.Contains(err.Error(), "another process uses") {
		t.Errorf("%v; want that the directory is locked", err)
	}
	want := saved{record: record{SystemID: 1 << 63, Promised: 1<<63 - 1, Followed: 7, Eras: []era{{2, 7, 99}}, Whole: true}}
	if err := f.save(want); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, c := range []struct {
		name, id string
		ok       bool
	}{{"orders", "n1", true}, {"orders", "n2", false}, {"other", "n1", false}} {
		f, err := openState(dir, c.name, c.id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.load()
		if c.ok && (err != nil || got.Promised != want.Promised || got.SystemID != want.SystemID || got.Eras[0] != want.Eras[0]) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		if !c.ok && err == nil {
			t.Errorf("%s of %s took the state of n1 of orders; want an error", c.id, c.name)
		}
		f.Close()
	}
}

// The schema that is shipped is that of the decoder.
func TestSchemaIsShipped(t *testing.T) {
	const path = "../../../../../deploy/recipe/postgres.schema.json"
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, Schema()) {
		t.Errorf("%s is not what elect recipe postgres schema prints (%v); want: elect recipe postgres schema >deploy/recipe/postgres.schema.json", path, err)
	}
}
