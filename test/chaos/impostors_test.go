//go:build linux

package chaos

import (
	"bytes"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/test/chaos/cluster"
	"github.com/electd/elect/test/chaos/network"
)

// impostors are the scenarios of processes under another node's id.
func impostors() []scenario {
	return []scenario{
		{
			name: "byzantine-id", story: "Others come with the leader's id: a second process on its data directory, one with a directory of its own, one with a certificate of another authority, and one with another node's.",
			nodes: 3, short: true, script: impostures,
			parts: []part{{on: quorum, expected: "each is refused, and the election is not disturbed", judge: undisturbed}},
		},
	}
}

// impostures starts them one after the other.
func impostures(s *trial) {
	s.begins()
	refused := func(who string, t *cluster.Twin, err error, because ...string) {
		s.t.Helper()
		s.does(err)
		ctx, cancel := s.patiently()
		defer cancel()
		words, err := t.Refused(ctx)
		s.must(err == nil, "%s is not refused: %v", who, err)
		if err == nil {
			s.say("%s: %s", who, words)
		}
		s.does(t.End())
	}
	leader := s.roles[0]
	t, err := s.cluster.Twin(leader, false)
	refused("a second process on one directory", t, err)
	t, err = s.cluster.Twin(leader, true)
	refused("a second directory", t, err)
	id := s.cluster.ID(leader)
	// A certificate of another authority, for the same cluster and ids.
	forged := filepath.Join(s.dir, "forged")
	s.does(certs.Make(forged, certs.Options{Cluster: "chaos", Nodes: []certs.Node{{ID: id, Hosts: s.net.Hosts(leader)}}}))
	s.impostor("forger", "a certificate of another authority", id, "is signed by another CA", url.Values{"certs": {forged}})
	// The certificate of another node.
	own := filepath.Join(s.dir, "certs")
	other := filepath.Join(own, s.cluster.ID(s.roles[1]))
	s.impostor("borrower", "a certificate of another node", id, "the certificate is that of", url.Values{"certs": nil, "ca": {filepath.Join(own, "ca.crt")}, "cert": {other + ".crt"}, "key": {other + ".key"}})
}

// impostor runs a candidate with another node's id, from where it reaches all nodes, for some
// promises. It must not lead; if it does, its work is in the ledger.
func (s *trial) impostor(name, who, id, because string, params url.Values) {
	s.t.Helper()
	u, err := url.Parse(s.cluster.URL(network.Operator))
	s.does(err)
	q := u.Query()
	maps.Copy(q, params)
	q.Set("data", filepath.Join(s.dir, "data", name))
	q.Set("listen", "127.0.0.1:0")
	u.RawQuery = q.Encode()
	b, err := s.cluster.StartAuxiliary(name, nil, s.programs.Elect, "run", "--election", u.String(), "--name", s.cluster.Name(), "--id", id, "--", s.programs.Worker, "life")
	s.does(err)
	var text []byte
	told := func() bool {
		text, err = os.ReadFile(filepath.Join(s.dir, "log", name+".log"))
		s.does(err)
		return bytes.Contains(text, []byte(because))
	}
	s.must(s.until(patience, told), "%s does not say %q; it says %s", who, because, text)
	select {
	case <-b.Done(): // it has given up
	case <-time.After(3 * promise): // it goes on trying
	}
	s.say("%s: %s", who, because)
	s.does(b.End())
}
