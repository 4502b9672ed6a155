// Package redact takes secrets out of URLs, before they are shown or passed on.
// Its functions keep no state and change nothing that they are given.
package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// URL is a URL as it may be shown: without a password, without the values of
// parameters whose names speak of a secret, and, where an @ stands where no user
// belongs, without all before it, since a password with a slash in it looks like
// that. What [Text] takes out goes, too. What is taken out reads "xxxxx".
//
// In a peer URL ids stand before each @, and key is the name of a file: these
// stay. Where an id is followed by a colon, as if by a password, it does not.
func URL(u *url.URL) string {
	if u.Scheme == peer {
		return peers(u).String()
	}
	if raw := u.String(); u.User == nil && (u.Host != "" || u.Opaque != "") {
		if at := strings.LastIndexByte(raw, '@'); at >= 0 {
			return Text(u.Scheme + ":xxxxx" + raw[at:])
		}
	}
	shown := *u
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		if key, _, _ := strings.Cut(pair, "="); secret(key) {
			pairs[i] = key + "=xxxxx"
		}
	}
	shown.RawQuery = strings.Join(pairs, "&")
	return Text(shown.Redacted())
}

// assigned is a password in what is no URL, such as "host=db password=x" of libpq, or in
// a URL that has it in the wrong place.
var assigned = regexp.MustCompile(`(?i)((?:pass|pwd|secret|credential)[a-z0-9_-]*(?:\s|%20)*=(?:\s|%20)*)[^&;\s"'` + "`" + `]+`)

// Text is a text, such as an error of a driver, without what is assigned in it to a name
// that speaks of a password, a secret or a credential.
func Text(s string) string { return assigned.ReplaceAllString(s, "${1}xxxxx") }

// Without is a copy of a URL that has neither user nor password nor parameters
// whose names speak of a secret. It still leads to the same place. A peer URL
// keeps its ids, see [URL].
func Without(u *url.URL) *url.URL {
	if u.Scheme == peer {
		return peers(u)
	}
	bare := *u
	bare.User = nil
	bare.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		return secret(key)
	}), "&")
	return &bare
}

// secret reports whether the name of a parameter speaks of one.
func secret(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc([]string{"pass", "pwd", "secret", "token", "key", "credential"}, func(word string) bool {
		return strings.Contains(key, word)
	})
}

// peer is the scheme of lists of peers, id@host:port each.
const peer = "peer"

// peers is a copy of a peer URL in which what looks like a password reads
// xxxxx. It may come with its list in Opaque, or taken apart by net/url, for
// which all before the last @ is user and password.
func peers(u *url.URL) *url.URL {
	shown := *u
	list := strings.TrimPrefix(u.Opaque, "//")
	if u.Opaque == "" {
		list = u.Host + u.EscapedPath()
		if u.User != nil {
			user := u.User.Username()
			if rest, ok := u.User.Password(); ok {
				user += ":" + rest
			}
			list = user + "@" + list
		}
		shown.User, shown.Host, shown.Path, shown.RawPath = nil, "", "", ""
	}
	items := strings.Split(list, ",")
	for i, item := range items {
		// Another @ may be part of a password.
		at := strings.LastIndexByte(item, '@')
		if id, _, colon := strings.Cut(item[:max(at, 0)], ":"); colon || strings.Contains(item[:max(at, 0)], "@") {
			id, _, _ = strings.Cut(id, "@")
			items[i] = id + ":xxxxx" + item[at:]
		}
	}
	shown.Opaque = "//" + strings.Join(items, ",")
	if u.Opaque != "" && !strings.HasPrefix(u.Opaque, "//") {
		shown.Opaque = shown.Opaque[2:]
	}
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		if key, _, _ := strings.Cut(pair, "="); key != "key" && secret(key) {
			pairs[i] = key + "=xxxxx"
		}
	}
	shown.RawQuery = strings.Join(pairs, "&")
	return &shown
}
