package sqlstore

import (
	"strings"
	"testing"

	"github.com/electd/elect/driver"
)

// TestPostgreSQLFindings: what the settings of a server mean, and which are wrong.
func TestPostgreSQLFindings(t *testing.T) {
	for _, c := range []struct {
		commit, standbys string
		senders          int
		wrong            string // what is wrong; "" nothing
		means            string
	}{
		{"on", "", 0, "", "restore from a backup"},
		{"on", "", 2, "", "2 standbys are connected, and a failover to one may lose"},
		{"on", "FIRST 1 (a, b)", 2, "", "tokens rise after a failover"},
		{"remote_apply", "*", 1, "", "tokens rise after a failover"},
		{"on", "*", 0, "synchronous_standby_names", "every write waits"},
		{"off", "", 0, "synchronous_commit", "forgets acknowledged writes"},
		{"local", "", 0, "", "restore from a backup"},
		{"local", "*", 1, "synchronous_commit", "may not have what was acknowledged"},
		{"remote_write", "*", 1, "synchronous_commit", "may not have what was acknowledged"},
	} {
		found(t, c, []driver.Finding{committed(c.commit, c.standbys), replicated(c.commit, c.standbys, c.senders)}, c.wrong, c.means)
	}
}

// TestMySQLFindings: the same of MySQL and MariaDB.
func TestMySQLFindings(t *testing.T) {
	good := map[string]string{
		"innodb_flush_log_at_trx_commit": "1", "log_bin": "OFF", "sync_binlog": "0", "autocommit": "ON", "transaction_isolation": "REPEATABLE-READ",
		"hostname": "a", "datadir": "/d", "wsrep_on": "OFF",
	}
	for _, c := range []struct {
		set, value, wrong, means string
		readOnly                 bool
	}{
		{"", "", "", "host name", false},
		{"server_uuid", "x", "", "is noticed: leases stay exclusive", false},
		{"innodb_flush_log_at_trx_commit", "2", "innodb_flush_log_at_trx_commit", "forgets", false},
		{"innodb_flush_log_at_trx_commit", "3", "", "there is no binary log", false},
		{"log_bin", "ON", "sync_binlog", "rolls acknowledged writes back", false},
		{"wsrep_on", "ON", "session", "Galera", false},
		{"autocommit", "OFF", "session", "want ON", false},
		{"", "", "read_only", "want the URL of the primary", true},
	} {
		v := map[string]string{c.set: c.value}
		for name, value := range good {
			if name != c.set {
				v[name] = value
			}
		}
		found(t, c, judged(v, c.readOnly), c.wrong, c.means)
	}
}

// found checks which finding is wrong, and that one of them says what is meant.
func found(t *testing.T, of any, all []driver.Finding, wrong, means string) {
	t.Helper()
	is, says := "", ""
	for _, f := range all {
		if f.Wrong {
			is += f.What
		}
		if f.What == "" || f.Value == "" || f.Means == "" {
			t.Errorf("%+v: a part is empty in %+v", of, f)
		}
		says += f.Means + "\n"
	}
	if is != wrong || !strings.Contains(says, means) {
		t.Errorf("%+v: wrong is %q, and it means\n%swant %q, and %q", of, is, says, wrong, means)
	}
}
