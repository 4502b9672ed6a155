//go:build linux && cgo

package leases_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/store/etcd"
	"github.com/electd/elect/test/fencing/server"
)

// secureEtcd is a server that requires certificates of clients, and whose own is for another name than its URL has.
type secureEtcd struct {
	*server.Etcd
	parameters map[string]string // of the URL, that are right
}

// issued makes an authority, with a certificate of a server and one of a client, and returns where they are.
func issued(t testing.TB, o certs.Options) string {
	t.Helper()
	dir := t.TempDir()
	o.Cluster, o.Nodes = "etcd", []certs.Node{{ID: "server", Hosts: []string{"etcd.internal"}}, {ID: "client"}}
	if err := certs.Make(dir, o); err != nil {
		t.Fatal(err)
	}
	return dir
}

func startSecureEtcd(t testing.TB) *secureEtcd {
	t.Helper()
	dir := issued(t, certs.Options{})
	return &secureEtcd{
		server.StartEtcdTLS(t, clientOf(t, dir), secureFlags(dir, dir)...),
		map[string]string{
			"cacert": filepath.Join(dir, "ca.crt"), "cert": filepath.Join(dir, "client.crt"), "cert_key": filepath.Join(dir, "client.key"),
			"server_name": "etcd.internal",
		},
	}
}

// secureFlags are those of a server with the certificate in dir, for clients of the authority in trusts.
func secureFlags(dir, trusts string) []string {
	return []string{
		"--unsafe-no-fsync", "--client-cert-auth", "--trusted-ca-file", filepath.Join(trusts, "ca.crt"),
		"--cert-file", filepath.Join(dir, "server.crt"), "--key-file", filepath.Join(dir, "server.key"),
	}
}

// clientOf has the client's certificate in dir, and trusts any server.
func clientOf(t testing.TB, dir string) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}
}

// url has these of the right parameters.
func (e *secureEtcd) url(parameters ...string) string {
	var query strings.Builder
	query.WriteString("server_election=1s")
	for _, p := range parameters {
		query.WriteString("&" + p + "=" + e.parameters[p])
	}
	_, host, _ := strings.Cut(e.URL, "://")
	return "etcd://" + host + "/tls?" + query.String()
}

// TestEtcdTLS: with the right certificates a candidate leads. Otherwise one line says at once what would be right.
func TestEtcdTLS(t *testing.T) {
	long.Full(t, "it starts real servers")
	e := startSecureEtcd(t)
	plain := strings.Replace(startEtcd(t).URL, "http://", "etcd://", 1) + "/tls?"
	other := issued(t, certs.Options{})
	past := issued(t, certs.Options{From: time.Now().Add(-48 * time.Hour), Valid: time.Hour})
	own := issued(t, certs.Options{})
	expired := &secureEtcd{server.StartEtcdTLS(t, clientOf(t, own), secureFlags(past, own)...), map[string]string{
		"cacert": filepath.Join(past, "ca.crt"), "cert": filepath.Join(own, "client.crt"), "cert_key": filepath.Join(own, "client.key"),
		"server_name": "etcd.internal",
	}}
	with := func(dir string) string {
		return "&cert=" + filepath.Join(dir, "client.crt") + "&cert_key=" + filepath.Join(dir, "client.key")
	}
	for name, c := range map[string]struct {
		url, want string
		refused   bool
	}{
		"right":                              {e.url("cacert", "cert", "cert_key", "server_name"), "", false},
		"another authority":                  {e.url("cert", "cert_key", "server_name") + "&cacert=" + filepath.Join(other, "ca.crt"), "want cacert=", true},
		"the system's authorities":           {e.url("cert", "cert_key", "server_name"), "want cacert=", true},
		"no name":                            {e.url("cacert", "cert", "cert_key"), "want server_name=", true},
		"no certificate":                     {e.url("cacert", "server_name"), "want cert=", true},
		"a certificate of another authority": {e.url("cacert", "server_name") + with(other), "want cert=", true},
		"an expired certificate":             {e.url("cacert", "server_name") + with(past), "want cert=", false},
		"a server with an expired one":       {expired.url("cacert", "cert", "cert_key", "server_name"), "want a server with a valid certificate", false},
		"plain text to TLS":                  {e.url(), "want tls=on", false},
		"TLS to plain text":                  {plain + "tls=on", "want tls=off", false},
	} {
		t.Run(name, func(t *testing.T) {
			log, begun := &bytes.Buffer{}, time.Now()
			a, err := etcd.Open(t.Context(), driver.Target{URL: parse(t, c.url), Name: "e", ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				if t.Logf("refused: %v", err); c.want == "" || !c.refused || !driver.IsPermanent(err) || !strings.Contains(err.Error(), c.want) || log.Len() != 0 {
					t.Errorf("%v, %s; want it to be refused: %t, with %q", err, log, c.refused, c.want)
				}
				if took := time.Since(begun); took > 4*time.Second {
					t.Errorf("it was refused after %v, as when servers do not answer; want at once", took)
				}
				return
			}
			if c.want == "" {
				released(t, local{a, t}.campaign(t.Context()))
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("logged: %s", log)
			if c.refused || (c.want == "") != (log.Len() == 0) || !strings.Contains(log.String(), c.want) || strings.Count(log.String(), "\n") > 1 {
				t.Errorf("want one line with %q; to be refused: %t", c.want, c.refused)
			}
		})
	}
}

// TestDatabaseTLS: elect run leads in a database whose certificate it can verify. Otherwise one line says at once what
// would be right, with exit code 69.
func TestDatabaseTLS(t *testing.T) {
	long.Full(t, "it starts real servers")
	program := harness.Build(t, "../../../cmd/elect")
	dir, other := t.TempDir(), issued(t, certs.Options{})
	if err := certs.Make(dir, certs.Options{Cluster: "db", Nodes: []certs.Node{{ID: "server", Hosts: []string{"localhost"}}}}); err != nil {
		t.Fatal(err)
	}
	lent := server.Lend(t, filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	cert, key := filepath.Join(lent, "server.crt"), filepath.Join(lent, "server.key")
	ends := func(t *testing.T, code int, want, authority string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(authority, "ca.crt"), "SSL_CERT_DIR="+t.TempDir())
		var said bytes.Buffer
		cmd.Stderr = &said
		_ = cmd.Run() // the code tells
		if cmd.ProcessState.ExitCode() != code || !strings.Contains(said.String(), want) || code != 0 && strings.Count(said.String(), "\n") != 1 {
			t.Errorf("elect %s: %v, %s; want %d, and one line with %q", args, cmd.ProcessState, &said, code, want)
		}
	}
	for name, c := range map[string]struct {
		at       func(t *testing.T) string // with HOST for the host
		trusting string                    // the parameter that names the file of an authority; "" is the environment
	}{
		"postgresql": {func(t *testing.T) string {
			pg := server.StartPostgres(t, "ssl = on", fmt.Sprintf("ssl_cert_file = '%s'", cert), fmt.Sprintf("ssl_key_file = '%s'", key))
			return strings.NewReplacer("127.0.0.1", "HOST", "sslmode=disable", "sslmode=verify-full").Replace(pg.Database(t))
		}, "&sslrootcert="},
		"mariadb": {func(t *testing.T) string {
			cfg := server.StartMariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key).Database(t)
			return "mysql://" + cfg.User + "@" + strings.Replace(cfg.Addr, "127.0.0.1", "HOST", 1) + "/" + cfg.DBName + "?tls=true"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			url := c.at(t)
			at := func(host, authority string) string {
				u := strings.Replace(url, "HOST", host, 1) + "&lease=2s&max_lease=2s"
				if c.trusting != "" {
					u += c.trusting + filepath.Join(authority, "ca.crt")
				}
				return u
			}
			ends(t, 0, "", dir, "install", "--election", at("localhost", dir))
			ends(t, 0, "leading e (token 1)", dir, "run", "--once", "--election", at("localhost", dir), "--name", "e", "--", "true")
			ends(t, 69, "want a host in the URL that is in the server's certificate", dir, "run", "--election", at("127.0.0.1", dir), "--name", "e", "--", "true")
			ends(t, 69, "want the authority that has signed the server's certificate", other, "run", "--election", at("localhost", other), "--name", "e", "--", "true")
		})
	}
}
