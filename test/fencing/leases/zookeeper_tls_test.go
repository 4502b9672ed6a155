//go:build linux && cgo

package leases_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/store/zookeeper"
	"github.com/electd/elect/test/fencing/server"
)

// TestZooKeeperTLS: with the right certificates a candidate leads. Otherwise a line says what is wrong.
func TestZooKeeperTLS(t *testing.T) {
	long.Full(t, "it starts a server")
	t.Parallel()
	dir, other := issued(t, certs.Options{}), issued(t, certs.Options{})
	var pair []byte
	for _, name := range []string{"server.key", "server.crt"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		pair = append(pair, text...)
	}
	own, addr := filepath.Join(dir, "server.pem"), harness.FreeAddr(t)
	if err := os.WriteFile(own, pair, 0o600); err != nil {
		t.Fatal(err)
	}
	server.StartZooKeeper(t, "secureClientPort="+addr[strings.LastIndexByte(addr, ':')+1:], "secureClientPortAddress=127.0.0.1",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "ssl.keyStore.location="+own, "ssl.trustStore.location="+filepath.Join(dir, "ca.crt"), "ssl.trustStore.type=PEM")
	file := func(dir, name string) string { return url.QueryEscape(filepath.Join(dir, name)) }
	right := "&cacert=" + file(dir, "ca.crt") + "&cert=" + file(dir, "client.crt") + "&cert_key=" + file(dir, "client.key")
	for name, c := range map[string]struct{ query, says string }{
		"right":             {right + "&server_name=etcd.internal", ""},
		"another authority": {strings.Replace(right, file(dir, "ca.crt"), file(other, "ca.crt"), 1) + "&server_name=etcd.internal", "certificate signed by unknown authority"},
		"no name":           {right, "cannot validate certificate for 127.0.0.1"},
		"no certificate":    {"&server_name=etcd.internal&cacert=" + file(dir, "ca.crt"), "tls: "},
		"plain text to TLS": {"", "at one side only (tls=on)"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &bytes.Buffer{}
			u := parse(t, "zookeeper://"+addr+"/tls?"+slow+c.query)
			e, err := zookeeper.Open(t.Context(), driver.Target{URL: u, Name: "e", ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if c.says == "" {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				released(t, local{e, t}.campaign(ctx))
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if (c.says == "") != (log.Len() == 0) || !strings.Contains(log.String(), c.says) {
				t.Errorf("logged %q; want a line with %q", log, c.says)
			}
		})
	}
}
