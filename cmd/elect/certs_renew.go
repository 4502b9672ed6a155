package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/peer/certs"
)

// certifyPeople makes certificates for operators, from an existing authority.
func certifyPeople(w io.Writer, dir, cluster, role string, names []string, valid time.Duration) error {
	r, err := certs.ParseRole(role)
	if err != nil {
		return exit.Usagef("--role: %w", err)
	}
	if err := hasKey(dir); err != nil {
		return err
	}
	o := certs.Options{Cluster: cmp.Or(cluster, clusterOf(dir)), Valid: valid}
	for _, name := range names {
		if slices.ContainsFunc(o.Operators, func(p certs.OperatorSpec) bool { return p.Name == name }) || name == "" {
			return exit.Usagef("the name %q is given twice, or is empty; want each once", name)
		}
		o.Operators = append(o.Operators, certs.OperatorSpec{Role: r, Name: name})
	}
	if len(names) == 0 {
		o.Operators = []certs.OperatorSpec{{Role: r}}
	}
	before := filesIn(dir)
	if err := certs.Make(dir, o); err != nil {
		return ofCerts(err, dir, append(slices.Clone(names), role)[:max(len(names), 1)])
	}
	made := slices.DeleteFunc(filesIn(dir), func(name string) bool { return slices.Contains(before, name) })
	_, err = fmt.Fprintf(w, "Written to %s: %s.\n\nA client with these files and ca.crt in one directory asks with certs=DIR, and has the role %s.\n", dir, strings.Join(made, ", "), r)
	return err
}

// hasKey returns an error if a directory has no authority that can sign.
func hasKey(dir string) error {
	if dir == "" {
		return exit.Usagef("--dir is empty; want a directory")
	}
	for _, name := range []string{"ca.crt", "ca.key"} {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return exit.Usagef("%s is not there; want --dir with the directory that elect certs wrote, ca.key included", file)
		} else if err != nil {
			return exit.With(exit.CannotCreate, err)
		}
	}
	return nil
}

const certsRenewHelp = `Renew certificates in --dir, with new keys: that of each NAME, or all of them. NAME is
the id of a node or the name of an operator, as in the names of its files. Ids, roles
and hosts stay as they are. renew needs ca.key in --dir, and accepts certificates that
have expired.

Copy the new files over the old ones. No node needs a restart: it reads the files at its
next connection, and replaces its connections within a minute. A node whose certificate
has expired does not start until it has a new one.`

func newCertsRenew() *cobra.Command {
	var dir string
	valid := days(0)
	cmd := &cobra.Command{
		Use:     "renew [flags] [NAME]…",
		Short:   "renew certificates, before or after they expire",
		Long:    certsRenewHelp,
		Example: "  elect certs renew\n  elect certs renew --dir /root/elect-ca --valid 90d n1",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if err := hasKey(dir); err != nil {
				return err
			}
			o := certs.RenewOptions{Valid: time.Duration(valid)}
			if len(args) > 0 {
				o.Names = args
			}
			done, err := certs.Renew(dir, o)
			if told := tellRenewed(cmd.OutOrStdout(), done); err == nil {
				return told
			}
			return ofCerts(err, dir, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "certs", "`DIR` that elect certs wrote")
	f.Var(&valid, "valid", "`TIME` for which the certificates are valid, such as 12h or 90d (default: 365d)")
	f.Lookup("valid").DefValue = ""
	return cmd
}

func tellRenewed(w io.Writer, done []certs.Renewed) error {
	var b strings.Builder
	for _, r := range done {
		fmt.Fprintf(&b, "%s is renewed until %s: copy %s.crt and %s.key over the old ones.\n", r.Name, r.Expires.UTC().Format(time.DateOnly), r.Name, r.Name)
	}
	if len(done) > 0 {
		fmt.Fprintf(&b, "No node needs a restart.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const certsRolloverHelp = `Replace the authority in --dir while the cluster runs. Do this before it expires, or if
others may know its key:

  1. elect certs rollover            a new ca.key, and a ca.crt with both authorities
     copy ca.crt to all nodes and operators
  2. elect certs renew               all certificates anew, by the new authority
     copy each pair to its node or operator, and wait a minute
  3. elect certs rollover --finish   a ca.crt without the old authority
     copy ca.crt to all nodes and operators

No node needs a restart. "elect members -o json" shows the authority of each node's
certificate (status.certificate.authority). Begin the next step only when the copy has
reached all nodes: nodes that are two steps apart refuse each other. --finish is refused
while --dir has a certificate of the old authority.`

func newCertsRollover() *cobra.Command {
	var dir string
	var finish bool
	cmd := &cobra.Command{
		Use:     "rollover [flags]",
		Short:   "replace the authority, in three steps",
		Long:    certsRolloverHelp,
		Example: "  elect certs rollover\n  elect certs renew\n  elect certs rollover --finish",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if err := hasKey(dir); err != nil {
				return err
			}
			text := "ca.crt has the new authority and the old one: copy it to all nodes and operators.\nThen: elect certs renew; copy each pair; elect certs rollover --finish.\n"
			do := func() error { return certs.BeginRollover(dir) }
			if finish {
				text = "ca.crt has the new authority alone: copy it to all nodes and operators.\n"
				do = func() error { return certs.FinishRollover(dir) }
			}
			if err := do(); err != nil {
				return ofCerts(err, dir, nil)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "certs", "`DIR` that elect certs wrote")
	f.BoolVar(&finish, "finish", false, "remove the old authority from ca.crt")
	return cmd
}
