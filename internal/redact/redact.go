// Package redact takes secrets out of URLs, before they are shown or passed on.
// Its functions keep no state and change nothing that they are given.
package redact

import (
	"net/url"
	"slices"
	"strings"
)

// URL is a URL as it may be shown: without a password, without the values of
// parameters whose names speak of a secret, and, where an @ stands where no user
// belongs, without all before it, since a password with a slash in it looks like
// that. What is taken out reads "xxxxx".
func URL(u *url.URL) string {
	if raw := u.String(); u.User == nil && (u.Host != "" || u.Opaque != "") {
		if at := strings.LastIndexByte(raw, '@'); at >= 0 {
			return u.Scheme + ":xxxxx" + raw[at:]
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
	return shown.Redacted()
}

// Without is a copy of a URL that has neither user nor password nor parameters
// whose names speak of a secret. It still leads to the same place.
func Without(u *url.URL) *url.URL {
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
