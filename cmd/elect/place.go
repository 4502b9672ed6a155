package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/redact"
)

// place is the election of a verb.
type place struct {
	election string // the URL
	name     string
}

func (p *place) flags(set *pflag.FlagSet) {
	set.StringVar(&p.election, "election", "", "`URL` of the place of the election (default: file: in your state directory)")
	set.StringVar(&p.name, "name", "", "`NAME` of the election")
}

// sharedPlace is the flag, and the parameter of a URL, that lets root use files to which other users can write.
const (
	sharedPlace      = "shared-place"
	sharedPlaceUsage = "let root use a place that other users can write to; they are trusted"
)

// resolve completes and checks the place, as far as possible without opening it, to distinguish a wrong command line
// from an error of the back end.
func (p *place) resolve(openers elect.Openers) error {
	if p.name == "" {
		return exit.Usagef("the election has no name; want --name, such as --name nightly")
	}
	if err := driver.CheckName(p.name); err != nil {
		return exit.With(exit.Usage, err)
	}
	return p.resolveURL(openers)
}

// configured is resolve for the election of a configuration file, of the candidate with that id. It also refuses what
// Open would, as far as that is possible without opening it. example is a URL that would be right. leaseless says what
// happens, and what would be right, among peers whose protocol proves no lease; "" permits that.
func (p *place) configured(openers elect.Openers, id, example, leaseless string) error {
	if err := p.resolve(openers); err != nil {
		return err
	}
	switch u, err := elect.ParseURL(p.election); {
	case err != nil: // whose text may have a password
		return fmt.Errorf("it does not parse as a URL; want one such as %s", example)
	case openers[u.Scheme] == nil:
		return fmt.Errorf("it has the scheme of no back end; want one such as %s", example)
	case !p.isPeer():
		return nil
	}
	plan, err := p.candidate(id, true)
	if err == nil && plan.Lease == 0 && leaseless != "" {
		return fmt.Errorf("protocol=%s proves no lease, so that %s", plan.Protocol, leaseless)
	}
	return err
}

// inFile is the text of an error about a field of a configuration file, which has no flags.
func inFile(err error) string { return strings.ReplaceAll(cli.OneLine(err.Error()), "--id", "id") }

// resolveURL is resolve for a place whose elections have no names.
func (p *place) resolveURL(openers elect.Openers) error {
	if p.election == "" {
		dir, err := stateDir()
		if err != nil {
			return err
		}
		p.election = (&url.URL{Scheme: "file", OmitHost: true, Path: dir}).String()
	}
	u, err := elect.ParseURL(p.election)
	if err == nil && u.Scheme == "file" && u.Opaque == "" && u.Path == "" && u.Host == "" {
		return exit.Usagef("election URL file: has no directory; want one such as file:/var/lib/elect")
	}
	if first, _, _ := strings.Cut(p.election, ":"); err != nil && !strings.Contains(p.election, "://") && strings.Contains(first, "@") {
		list, _, _ := strings.Cut(p.election, "?") // there is no password: the first @ is before the first colon
		return exit.Usagef("election URL %q has no scheme; did you mean %s://%s?", list, peerScheme, list)
	}
	if e, ok := errors.AsType[*url.Error](err); ok && p.isPeer() { // for other places the text may contain a password
		return exit.Usagef("the election URL does not parse: %w; want one such as peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400", e.Err)
	}
	if err != nil || openers[u.Scheme] != nil {
		return nil // Open reports what is wrong with it
	}
	if strings.HasPrefix(u.Scheme, "sqlite") {
		return exit.Usagef("this command has no driver for SQLite, whose elections are on one machine; want a directory there, such as file:/var/lib/elect")
	}
	if want := otherScheme(u.Scheme); want != "" {
		return exit.Usagef("the election URL has the unknown scheme %q; want %s", u.Scheme, want)
	}
	if u.Scheme == "" {
		if strings.ContainsAny(p.election, "/.") && u.RawQuery == "" {
			return exit.Usagef("election URL %q has no scheme; did you mean file:%s?", p.election, p.election)
		}
		return nil
	}
	for scheme := range openers {
		if cli.EditDistance(u.Scheme, scheme) > 2 {
			continue
		}
		if rest, ok := strings.CutPrefix(p.election, u.Scheme+":"); ok && u.User == nil {
			return exit.Usagef("election URL %q: unknown scheme %q; did you mean %s:%s?", p.election, u.Scheme, scheme, rest)
		}
		return exit.Usagef("the election URL has the unknown scheme %q; did you mean %s?", u.Scheme, scheme)
	}
	return nil
}

// otherScheme is the URL to write in place of one with a scheme that other programs know; "" if there is none.
func otherScheme(scheme string) (want string) {
	switch scheme {
	case "k8s", "kube":
		return "kubernetes://NAMESPACE"
	case "valkey":
		return "redis://HOST:PORT/DB"
	case "valkeys":
		return "rediss://HOST:PORT/DB"
	case "redis+sentinel", "redis-sentinel", "sentinel":
		return "redis://SENTINEL:26379/DB?master_name=NAME"
	case "unix":
		return "redis+unix:///PATH for Redis, or consul:///PREFIX?socket=PATH for Consul"
	case "mariadb":
		return "mysql://USER@HOST/DATABASE"
	}
	return ""
}

// names lists the elections of the place, for the back ends that can.
func (p *place) names() ([]string, error) {
	u, err := elect.ParseURL(p.election)
	if err != nil || u.Scheme != "file" {
		return nil, elect.ErrUnsupported
	}
	return file.List(u)
}

// open resolves the place and opens it for a verb that does not stand.
func (p *place) open(cmd *cobra.Command, openers elect.Openers) (*elect.Election, error) {
	if err := p.resolve(openers); err != nil {
		return nil, err
	}
	e, err := asking(openers).Open(cmd.Context(), p.election, p.name, elect.Config{NonExclusive: true}) // it asks for no lease
	return e, failed.Opening(err)
}

// shown is the URL without its password, for the environment of a command and for output. It has no relative path,
// which would be another place in another directory.
func (p *place) shown() string {
	u, err := elect.ParseURL(p.election)
	if err != nil {
		return ""
	}
	if scheme, ok := strings.CutPrefix(u.Scheme, groupPrefix); ok {
		u.Scheme = scheme
		return groupPrefix + shownURL(u)
	}
	return shownURL(u)
}

func shownURL(u *url.URL) string {
	if u.Scheme == peerScheme {
		return shownPeers(u)
	}
	u = redact.Without(u)
	if u.Scheme != "file" {
		return u.String()
	}
	path, err := u.Path, error(nil)
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return u.String()
		}
	}
	if abs, err := filepath.Abs(path); err == nil {
		u.Opaque, u.RawPath, u.Path, u.OmitHost = "", "", abs, true
	}
	return u.String()
}

// private reports whether the place is a directory of this user alone, in the state directory or the home directory:
// other users who name no place, or name theirs with ~, hold other elections of the same names.
func (p *place) private() bool {
	u, err := elect.ParseURL(p.shown())
	if err != nil || u.Scheme != "file" {
		return false
	}
	state, _ := stateHome() // without one nothing is in it
	home, _ := os.UserHomeDir()
	for _, own := range []string{state, home} {
		if !filepath.IsAbs(own) || own == "/" {
			continue
		}
		if rest, err := filepath.Rel(own, u.Path); err == nil && filepath.IsLocal(rest) {
			return true
		}
	}
	return false
}

// stateDir is the default directory of elections.
func stateDir() (string, error) {
	home, err := stateHome()
	return filepath.Join(home, "elect"), err
}

// stateHome is the directory for state by the XDG Base Directory Specification.
func stateHome() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) { // the specification says to ignore relative ones
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err == nil && !filepath.IsAbs(home) {
		return "", exit.Usagef("no state directory is known, because HOME is %q, which is not absolute; want an absolute one, or --election, such as --election file:/var/lib/elect", home)
	}
	if err != nil {
		return "", exit.Usagef("no state directory is known, because HOME is not set; want --election, such as --election file:/var/lib/elect")
	}
	return filepath.Join(home, ".local", "state"), nil
}

// nameArgument takes the election's name from the argument, if there is one.
func (p *place) nameArgument(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return cli.FromEnvironment(cmd)
	case len(args) > 1:
		return exit.Usagef("%s takes one name, and %q was given, too", cmd.CommandPath(), args[1])
	case cmd.Flags().Changed("name"):
		return exit.Usagef("the name is given twice, as --name %s and as %s; want one", p.name, args[0])
	}
	p.name = args[0]
	if p.name == "" {
		return exit.With(exit.Usage, driver.CheckName(""))
	}
	return cli.FromEnvironment(cmd, "name")
}
