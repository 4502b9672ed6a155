package drive

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Place is where a store is, by its URL.
type Place struct {
	Hosts []string // each with a port
	Path  string
	User  *url.Userinfo // nil: none
}

// ParsePlace reads the part of a URL before its parameters. elect.ParseURL puts several hosts, which package url
// refuses, into Opaque. A host without a port gets that one.
func ParsePlace(u *url.URL, port string) (p Place, err error) {
	authority := u.Host
	p.Path, p.User = u.Path, u.User
	if u.Opaque != "" {
		place, found := strings.CutPrefix(u.Opaque, "//")
		authority, p.Path, _ = strings.Cut(place, "/")
		if strings.Contains(place, "/") {
			p.Path = "/" + p.Path
		}
		if p.Path, err = url.PathUnescape(p.Path); err != nil || !found {
			return p, fmt.Errorf("the URL does not parse; want %s://HOST,HOST/PREFIX", u.Scheme)
		}
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			one, err := url.Parse("user://" + authority[:at] + "@host")
			if err != nil {
				return p, fmt.Errorf("the user in the URL does not parse; want %s://USER@HOST,HOST/PREFIX", u.Scheme)
			}
			authority, p.User = authority[at+1:], one.User
		}
	}
	for host := range strings.SplitSeq(authority, ",") {
		if host, err = HostPort(host, port); err != nil && strings.Contains(p.Path, "@") {
			return p, fmt.Errorf("the host in the URL does not parse, and an @ is in its path; want %s://HOST,HOST/PREFIX, and %%2F for a slash in a password", u.Scheme)
		} else if err != nil {
			return p, fmt.Errorf("%w, and a comma between two", err)
		}
		p.Hosts = append(p.Hosts, host)
	}
	return p, nil
}

// Shown is a part of a URL in quotes, for an error. What is before an @ is not shown: a password with a slash looks like
// a host and the begin of a path.
func Shown(part string) string {
	if at := strings.LastIndexByte(part, '@'); at >= 0 {
		part = "xxxxx" + part[at:]
	}
	return fmt.Sprintf("%.100q", part)
}

// HostPort returns a host of a URL with its port, which is that one if it has none. No later attempt would mend what it
// refuses.
func HostPort(host, port string) (string, error) {
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	name, text, err := net.SplitHostPort(host)
	number, wrong := strconv.ParseUint(text, 10, 16)
	if err != nil || wrong != nil || name == "" || number == 0 {
		return "", fmt.Errorf("host %.100q; want HOST or HOST:PORT", host)
	}
	return host, nil
}
