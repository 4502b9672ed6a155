package elect

import (
	"net/url"
	"strings"
)

// ParseURL parses the URL of an election as [Openers.Open] does. Several hosts, as in
// peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400, which package net/url does not accept, are left in Opaque, with everything
// from the slashes to the query. String returns the same text.
func ParseURL(raw string) (*url.URL, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	place, query, asks := strings.Cut(rest, "?")
	hosts, _, _ := strings.Cut(place, "/")
	if !found || !several(hosts) || strings.Contains(rest, "#") {
		return url.Parse(raw)
	}
	// Scheme and query follow the usual rules.
	u, err := url.Parse(scheme + "://host?" + query)
	if err != nil {
		return nil, err
	}
	u.Host, u.Opaque, u.ForceQuery = "", "//"+place, asks && query == ""
	return u, nil
}

// several reports whether an authority lists hosts: whether it has a comma other than in the user and password before
// a single @.
func several(authority string) bool {
	last := strings.LastIndexByte(authority, '@')
	return strings.Contains(authority[last+1:], ",") || strings.Contains(authority, ",") && strings.Count(authority, "@") > 1
}
