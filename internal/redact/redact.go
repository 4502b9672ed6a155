// Package redact removes secrets from URLs, before they are shown or passed on. Its functions keep no state and do
// not change their arguments.
package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// URL returns a URL that may be shown. It replaces these with "xxxxx": a password; the values of parameters whose
// names suggest a secret; everything before an @ where no user belongs, because a password with a slash looks like
// that; and everything that [Text] removes.
//
// In a peer URL the text before each @ is an id, and key is the name of a file: these stay. An id that is followed by
// a colon, as if by a password, is replaced too.
//
// A URL of a group is that of its coordinator's election with group+ before its scheme.
func URL(u *url.URL) string {
	if inner, ok := ungrouped(u); ok {
		return group + URL(inner)
	}
	if u.Scheme == peer {
		return peers(u).String()
	}
	if raw := u.String(); u.User == nil && (u.Host != "" || u.Opaque != "") {
		if at := strings.LastIndexByte(raw, '@'); at >= 0 {
			return Text(u.Scheme + ":xxxxx" + raw[at:])
		}
	}
	shown := *u
	if tokened(u) {
		shown.User = url.User("xxxxx")
	}
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		if key, _, _ := strings.Cut(pair, "="); secret(u.Scheme, key) {
			pairs[i] = key + "=xxxxx"
		}
	}
	shown.RawQuery = strings.Join(pairs, "&")
	return Text(shown.Redacted())
}

// group begins the schemes of groups.
const group = "group+"

// ungrouped returns the URL of the coordinator's election, and false if u is not that of a group.
func ungrouped(u *url.URL) (*url.URL, bool) {
	scheme, ok := strings.CutPrefix(u.Scheme, group)
	if !ok {
		return nil, false
	}
	inner := *u
	inner.Scheme = scheme
	return &inner, true
}

// assigned matches a password in a text that is no URL, such as "host=db password=x" of libpq, or in a URL that has
// it in the wrong place.
var assigned = regexp.MustCompile(`(?i)((?:pass|pwd|secret|credential)[a-z0-9_-]*(?:\s|%20)*=(?:\s|%20)*)[^&;\s"'` + "`" + `]+`)

// Text returns a text, such as an error of a driver, without the values of names that suggest a password, a secret or
// a credential.
func Text(s string) string { return assigned.ReplaceAllString(s, "${1}xxxxx") }

// Without returns a copy of a URL without password and without parameters whose names suggest a secret. It still leads
// to the same place, as the same user. The hosts and the user may be in Opaque, as elect.ParseURL leaves them. A peer
// URL keeps its ids, see [URL].
func Without(u *url.URL) *url.URL {
	if inner, ok := ungrouped(u); ok {
		bare := Without(inner)
		bare.Scheme = u.Scheme
		return bare
	}
	if u.Scheme == peer {
		return peers(u)
	}
	bare := *u
	if bare.User = nil; u.User.Username() != "" && !tokened(u) {
		bare.User = url.User(u.User.Username())
	}
	if list, ok := strings.CutPrefix(u.Opaque, "//"); ok {
		hosts, path, found := strings.Cut(list, "/")
		if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
			user, _, _ := strings.Cut(hosts[:at], ":")
			hosts = user + hosts[at:]
		}
		if bare.Opaque = "//" + hosts; found {
			bare.Opaque += "/" + path
		}
	}
	bare.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		return secret(u.Scheme, key)
	}), "&")
	return &bare
}

// tokened reports whether the user of a URL is a token, as other clients of NATS have it.
func tokened(u *url.URL) bool {
	_, password := u.User.Password()
	return u.Scheme == "nats" && u.User != nil && !password && !u.Query().Has("password_file")
}

// named are the parameters of a scheme whose names suggest a secret, and whose values are none: they name a file or a
// key, or switch something.
var named = map[string][]string{
	peer:         {"key"},
	"consul":     {"key", "cert_key", "token_file"},
	"etcd":       {"key", "cert_key", "password_file"},
	"s3":         {"credentials_file"},
	"nats":       {"cert_key", "password_file", "token_file", "nkey"},
	"postgres":   {"passfile", "sslkey"},
	"postgresql": {"passfile", "sslkey"},
	"redis":      {"key", "cert_key", "password_file"},
	"rediss":     {"key", "cert_key", "password_file"},
	"redis+unix": {"key", "cert_key", "password_file"},
	"mysql":      {"allowCleartextPasswords", "allowNativePasswords", "allowOldPasswords", "serverPubKey"},
	"zookeeper":  {"cert_key", "password_file"},
	"zk":         {"cert_key", "password_file"},
}

// secret reports whether the name of a parameter suggests a secret.
func secret(scheme, key string) bool {
	if plain, err := url.QueryUnescape(key); err == nil {
		key = plain
	}
	if slices.Contains(named[scheme], key) || key == "group-token-bits" {
		return false
	}
	key = strings.ToLower(key)
	return slices.ContainsFunc([]string{"pass", "pwd", "secret", "token", "key", "credential"}, func(word string) bool {
		return strings.Contains(key, word)
	})
}

// peer is the scheme of lists of peers, id@host:port each.
const peer = "peer"

// peers returns a copy of a peer URL in which what looks like a password is replaced by xxxxx. Its list may be in
// Opaque, or split by net/url, which takes everything before the last @ for user and password.
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
		if key, _, _ := strings.Cut(pair, "="); secret(peer, key) {
			pairs[i] = key + "=xxxxx"
		}
	}
	shown.RawQuery = strings.Join(pairs, "&")
	return &shown
}
