package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/peer/certs"
)

const certsHelp = `Make certificates for peers, if you have no authority of your own. In --dir it makes a
small authority (ca.crt and ca.key), a certificate and a key for each ID, and a
certificate and a key for an operator with the role operate. HOSTs are the names or
addresses under which the other nodes reach ID. Only the id in a certificate counts: a
process that shows the certificate of n1 is n1.

If --dir already has an authority, it is used, so that nodes can be added later. Nothing
is overwritten. Only their owner can read the keys (0600). Keep ca.key off the machines:
it can sign a certificate for any id.

With --role it makes only certificates for operators, which are people and programs: one
for each NAME, which the logs of the nodes show, or one without a name. The roles:

  observe     status, members, watch, history
  operate     also resign, transfer, pause, resume
  administer  also member add, remove, replace

A verb uses the strongest role that it can read in the directory of certs=DIR. A node's
own certificate counts as operate while the node is a member.

"elect certs show" prints certificates, "elect certs renew" renews them before or after
they expire, and "elect certs rollover" replaces the authority.`

// installed is the place of certificates in the printed lines: any place will do.
const installed = "/etc/elect/certs"

// stored is the place of the data directories in the printed lines.
const stored = "/var/lib/elect"

func newCerts() *cobra.Command {
	var dir, cluster, role string
	valid := days(0)
	cmd := &cobra.Command{
		Use:     "certs [flags] ID[=HOST,…]… | --role ROLE [NAME]…",
		Args:    cobra.ArbitraryArgs, // otherwise cobra takes an ID for an unknown verb
		Short:   "make certificates for peers",
		Long:    certsHelp,
		Example: "  elect certs n1=10.0.0.1 n2=10.0.0.2 n3=10.0.0.3\n  elect certs n4=10.0.0.4            # later, with the same authority\n  elect certs --role observe grafana\n  elect certs --role administer\n  elect certs show certs",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if role != "" || cmd.Flags().Changed("role") {
				return certifyPeople(cmd.OutOrStdout(), dir, cluster, role, args, time.Duration(valid))
			}
			if len(args) == 0 {
				return exit.Usagef("no node is named; want elect certs ID[=HOST,…]…, such as elect certs n1=10.0.0.1 n2=10.0.0.2 n3=10.0.0.3")
			}
			if dir == "" {
				return exit.Usagef("--dir is empty; want a directory")
			}
			nodes, err := certified(args)
			if err != nil {
				return err
			}
			if cluster == "" {
				cluster = clusterOf(dir)
			}
			before := filesIn(dir)
			if err := certs.Make(dir, certs.Options{Cluster: cluster, Nodes: nodes, Valid: time.Duration(valid)}); err != nil {
				return ofCerts(err, dir, args)
			}
			made := slices.DeleteFunc(filesIn(dir), func(name string) bool { return slices.Contains(before, name) })
			return tellCerts(cmd.OutOrStdout(), dir, made, nodes)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "certs", "`DIR` to write to; made if it does not exist")
	f.StringVar(&cluster, "cluster", "", "`ID` of the cluster; peers refuse those of another one (default: elect, or that of the authority in DIR)")
	f.StringVar(&role, "role", "", "make certificates for operators with this `ROLE`: observe, operate or administer")
	f.Var(&valid, "valid", "`TIME` for which the certificates are valid, such as 12h or 90d (default: 365d)")
	f.Lookup("valid").DefValue = ""
	cmd.AddCommand(newCertsShow(), newCertsRenew(), newCertsRollover())
	return cmd
}

// clusterOf returns the cluster of the authority in dir, or the default.
func clusterOf(dir string) string {
	all, err := readCerts(filepath.Join(dir, "ca.crt"))
	if err != nil || all[0].Cluster == "" {
		return peer.DefaultCluster // certs.Make reports errors of the authority
	}
	return all[0].Cluster
}

// certified parses the arguments.
func certified(args []string) ([]certs.Node, error) {
	var nodes []certs.Node
	for _, arg := range args {
		id, hosts, found := strings.Cut(arg, "=")
		if _, err := protocol.ParseNodeID(id); err != nil {
			return nil, exit.Usagef("%q: %w; want ID or ID=HOST,…, such as n1=10.0.0.1", arg, err)
		}
		if slices.ContainsFunc(nodes, func(n certs.Node) bool { return n.ID == id }) {
			return nil, exit.Usagef("%s is given twice; want each once", id)
		}
		n := certs.Node{ID: id}
		if found {
			for host := range strings.SplitSeq(hosts, ",") {
				if host == "" || strings.ContainsAny(host, "/@ ") {
					return nil, exit.Usagef("%q: the host %q is none; want names or addresses without ports, such as %s=10.0.0.1,%s.example.com", arg, host, id, id)
				}
				n.Hosts = append(n.Hosts, strings.Trim(host, "[]"))
			}
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// ofCerts gives an error about files of certificates its exit code.
func ofCerts(err error, dir string, args []string) error {
	if errors.Is(err, fs.ErrExist) {
		var names []string
		for _, arg := range args {
			name, _, _ := strings.Cut(arg, "=")
			names = append(names, name)
		}
		return exit.Usagef("%s already has all of %s, and nothing is overwritten; elect certs renew renews them", dir, strings.Join(names, ", "))
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return exit.With(exit.CannotCreate, err)
	}
	return exit.With(exit.Usage, err)
}

func filesIn(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // not there yet: none
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// tellCerts says what was written, which files belong where, and what to run next.
func tellCerts(w io.Writer, dir string, made []string, nodes []certs.Node) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Written to %s: %s.\n\n", dir, strings.Join(made, ", "))
	var voters []string
	ports := map[string]int{} // the next port of each host
	for i, n := range nodes {
		if !slices.Contains(made, n.ID+".crt") {
			fmt.Fprintf(&b, "%s already has a certificate there. It stays as it is.\n", n.ID)
		}
		host := fmt.Sprintf("HOST%d", i+1)
		if len(n.Hosts) > 0 {
			host = n.Hosts[0]
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		fmt.Fprintf(&b, "Copy ca.crt, %s.crt and %s.key to %s on %s.\n", n.ID, n.ID, installed, host)
		voters = append(voters, fmt.Sprintf("%s@%s:%d", n.ID, host, 7400+ports[host]))
		ports[host]++
	}
	if slices.Contains(made, "ca.key") {
		fmt.Fprintf(&b, "Keep ca.key here, or safer: it makes further certificates. No node needs it.\n")
	}
	url := peerScheme + "://" + strings.Join(voters, ",") + "?certs=" + installed
	if slices.Contains(made, "ca.key") {
		fmt.Fprintf(&b, "operator.crt and operator.key, with ca.crt, are for operators: elect status, members, resign, history.\n")
		fmt.Fprintf(&b, "elect member needs another role: elect certs --role administer.\n\n")
		fmt.Fprintf(&b, "Then run on each machine, with its own --id:\n\n  elect run --election '%s' \\\n            --data %s --id %s --name NAME -- COMMAND\n", url, stored, nodes[0].ID)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func newCertsShow() *cobra.Command {
	var format form
	cmd := &cobra.Command{
		Use:   "show [flags] DIR|FILE",
		Short: "show certificates: id, cluster, hosts, expiry",
		Long: `Show the certificate in a file, or those in the files *.crt of a directory.

-o json writes an array of objects on one line:
  file
  id         ~ROLE or ~ROLE/NAME for an operator; ~operator has the role operate
  role       of an operator
  cluster
  hosts
  expires    RFC 3339
  expired    whether it has expired
  authority  whether it is the authority
-o yaml writes the same on several lines.`,
		Example: "  elect certs show /etc/elect/certs",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if len(args) != 1 {
				return exit.Usagef("elect certs show takes one directory or file, and %d were given; see elect certs show --help", len(args))
			}
			all, err := readCerts(args[0])
			if err != nil {
				return err
			}
			return format.write(cmd.OutOrStdout(), all, func(w io.Writer) error { return writeCerts(w, all) })
		},
	}
	format.flag(cmd.Flags())
	return cmd
}

func writeCerts(w io.Writer, all []certificate) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FILE\tID\tROLE\tCLUSTER\tHOSTS\tEXPIRES")
	for _, c := range all {
		expires := timestamp(c.Expires)
		if c.Expired {
			expires += " (expired)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", c.File, c.who(), or(c.Role), or(c.Cluster), or(strings.Join(c.Hosts, ",")), expires)
	}
	return t.Flush()
}

// who is the id, for people.
func (c *certificate) who() string {
	if c.CA {
		return "(authority)"
	}
	return c.ID
}

// certificate describes a certificate. Fields are added, and never renamed or removed.
type certificate struct {
	File    string    `json:"file"`
	ID      string    `json:"id,omitempty"`
	Role    string    `json:"role,omitempty"`
	Cluster string    `json:"cluster,omitempty"`
	Hosts   []string  `json:"hosts,omitempty"`
	Expires time.Time `json:"expires"`
	Expired bool      `json:"expired"`
	CA      bool      `json:"authority"`

	soon bool // it should have been renewed
}

func readCerts(path string) ([]certificate, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, exit.With(exit.CannotCreate, err)
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(escapeGlob(path), "*.crt")); err != nil || len(files) == 0 {
			return nil, exit.Usagef("%s has no certificates; want files such as ca.crt and n1.crt", path)
		}
	}
	all := []certificate{}
	for _, file := range files {
		raw, _, err := readFile("certs", file)
		if err != nil {
			return nil, err
		}
		block, _ := pem.Decode(raw)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, exit.Usagef("%s has no certificate; want a file such as n1.crt", file)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, exit.Usagef("%s: %w", file, err)
		}
		one := certificate{File: file, Hosts: c.DNSNames, Expires: c.NotAfter, Expired: time.Now().After(c.NotAfter), CA: c.IsCA, soon: certs.ExpiresSoon(c, time.Now())}
		for _, ip := range c.IPAddresses {
			one.Hosts = append(one.Hosts, ip.String())
		}
		if cluster, id, err := certs.PeerOf(tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}); err == nil {
			role, _ := certs.RoleOf(id)
			one.Cluster, one.ID, one.Role = cluster, id, string(role)
		} else if !c.IsCA {
			return nil, exit.Usagef("%s is no certificate of a peer: %w", file, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// escapeGlob escapes the characters of a path that are patterns.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// days is the value of a flag: a time that may be given in days.
type days time.Duration

func (d *days) String() string { return time.Duration(*d).String() }
func (d *days) Type() string   { return "days" }
func (d *days) Set(text string) error {
	const day = 24 * time.Hour
	v, err := time.ParseDuration(text)
	if n, found := strings.CutSuffix(text, "d"); found {
		var whole int
		if whole, err = strconv.Atoi(n); err == nil && whole <= 36500 {
			v = time.Duration(whole) * day
		}
	}
	if err != nil || v <= 0 || v > 36500*day {
		return errors.New("want a time such as 365d or 12h, at most 36500d")
	}
	*d = days(v)
	return nil
}
