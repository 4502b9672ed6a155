package main

import (
	"net/url"
	"strings"

	"github.com/electd/elect"
	"github.com/electd/elect/group"
	"github.com/electd/elect/peer/certs"
)

// groupPrefix comes before the scheme of the coordinator's election.
const groupPrefix = "group+"

// withGroups adds to each back end the groups whose coordinator is elected there: their schemes begin with group+.
func withGroups(openers elect.Openers) elect.Openers {
	all := make(elect.Openers, 2*len(openers))
	for scheme, open := range openers {
		all[scheme] = open
		all[groupPrefix+scheme] = group.OpenerWith(open, groupCerts)
	}
	return all
}

// isGroup reports whether a URL, or its scheme, is that of a group.
func isGroup(url string) bool { return strings.HasPrefix(url, groupPrefix) }

// groupCerts reads the certificates of a group's member, which are those of a peer.
func groupCerts(params url.Values, cfg *group.Config) error {
	const name = "group-certs"
	dir := params.Get(name)
	params.Del(name)
	if dir == "" {
		return nil
	}
	identity, err := certs.LoadDir(dir, cfg.ID)
	if err == nil {
		cfg.TLS = identity
	}
	return err
}
