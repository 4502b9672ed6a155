package elect

import (
	"net/url"
	"strings"
)

// ParseURL parses the URL of an election as [Openers.Open] does. A place that is
// several hosts, as in peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400, is more than the
// authority of a URL can be to package net/url. All from the slashes to the query
// is then in Opaque, as it was written, and String gives the same text back.
func ParseURL(raw string) (*url.URL, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	place, query, asks := strings.Cut(rest, "?")
	hosts, _, _ := strings.Cut(place, "/")
	if !found || !several(hosts) || strings.Contains(rest, "#") {
		return url.Parse(raw)
	}
	// Scheme and query are held to what they are elsewhere.
	u, err := url.Parse(scheme + "://host?" + query)
	if err != nil {
		return nil, err
	}
	u.Host, u.Opaque, u.ForceQuery = "", "//"+place, asks && query == ""
	return u, nil
}

// several reports whether an authority lists hosts: there is a comma, and not
// only in front of the one @ that ends a user and a password.
func several(authority string) bool {
	last := strings.LastIndexByte(authority, '@')
	return strings.Contains(authority[last+1:], ",") || strings.Contains(authority, ",") && strings.Count(authority, "@") > 1
}
