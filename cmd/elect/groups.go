package main

import (
	"maps"
	"net/url"
	"strings"

	"github.com/electd/elect"
	"github.com/electd/elect/group"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/peer/certs"
)

// groupPrefix comes before the scheme of the coordinator's election.
const groupPrefix = "group+"

// withGroups adds to each back end the groups whose coordinator is elected there: their schemes begin with group+.
func withGroups(openers elect.Openers) elect.Openers {
	all := make(elect.Openers, 2*len(openers))
	for scheme, open := range openers {
		all[scheme] = open
		all[groupPrefix+scheme] = group.OpenerWith(open, groupCertsOf(scheme))
	}
	return all
}

// asking is the openers of withGroups for verbs that do not stand: they are no members of groups.
func asking(openers elect.Openers) elect.Openers {
	all := maps.Clone(openers)
	for scheme, open := range openers {
		if all[groupPrefix+scheme] != nil {
			all[groupPrefix+scheme] = group.Asker(open, groupCertsOf(scheme))
		}
	}
	return all
}

// isGroup reports whether a URL, or its scheme, is that of a group.
func isGroup(url string) bool { return strings.HasPrefix(url, groupPrefix) }

// groupCertsOf is groupCerts for a group whose coordinator is elected by that scheme.
func groupCertsOf(scheme string) func(url.Values, *group.Config) error {
	if scheme != peerScheme {
		return groupCerts
	}
	return func(params url.Values, _ *group.Config) error {
		if params.Has(certsParam) {
			return exit.Usagef("%s is given, and a group over peers uses their port and their certificates; want certs=DIR alone", certsParam)
		}
		return nil
	}
}

// certsParam names the certificates of members, in the URL of a group with ports of its own.
const certsParam = "group-certs"

// groupCerts reads the certificates of a group's member, which are those of a peer.
func groupCerts(params url.Values, cfg *group.Config) error {
	dir := params.Get(certsParam)
	params.Del(certsParam)
	if dir == "" {
		return nil
	}
	identity, err := certs.LoadDir(dir, cfg.ID)
	if err == nil {
		cfg.TLS = identity
	}
	return err
}
