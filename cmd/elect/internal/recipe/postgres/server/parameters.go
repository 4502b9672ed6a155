package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// service is the name in primary_conninfo, and in the file that says who the primary is.
const service = "elect"

// parameter is one that users cannot set as they like.
type parameter struct {
	name string
	// fixed is what a Server passes to the postmaster as an argument, which ALTER SYSTEM cannot overrule. "" is none.
	fixed string
	// others says that it is not a Server's own: ALTER SYSTEM may have set it.
	others bool
	// values are those that users may set, the usual one first. Nil are none.
	values []string
	why    string // why users cannot set another one
}

var on = []string{"on", "true", "yes", "1"}

// parameters are all of them.
var parameters = [...]parameter{
	{name: "synchronous_commit", others: true, values: append(on[:len(on):len(on)], "remote_apply"), why: "a commit would be acknowledged that no replica has on disk"},
	{name: "wal_level", others: true, values: []string{"replica", "logical"}, why: "there would be nothing to replicate"},
	{name: "fsync", fixed: "on", values: on, why: "what a node has confirmed could be gone after a crash of its machine"},
	{name: "full_page_writes", fixed: "on", values: on, why: "a page could be torn by a crash, and pg_rewind needs it"},
	{name: "hot_standby", fixed: "on", values: on, why: "this program could not ask a replica how far it is"},
	{name: "wal_log_hints", fixed: "on", values: on, why: "pg_rewind could miss pages"},
	{name: "restart_after_crash", fixed: "on", values: on, why: "the crash of one client's process would end the server"},
	{name: "logging_collector", fixed: "off", values: []string{"off"}, why: "this program would not get the lines of the server"},
	{name: "log_destination", fixed: "stderr", values: []string{"stderr"}, why: "this program would not get the lines of the server"},
	{name: "unix_socket_permissions", fixed: "0700", values: []string{"0700"}, why: "other users could reach the socket of this program"},
	{name: "lc_messages", fixed: "C", why: "this program reads messages of the server"},
	{name: "recovery_target_timeline", fixed: "latest", why: "a replica follows the leader"},
	{name: "recovery_min_apply_delay", fixed: "0", why: "such a replica would be promoted late"},
	{name: "primary_conninfo", fixed: "service=" + service, why: "it is the leader's"},
	{name: "primary_slot_name", why: "it is the leader's"},
	{name: "listen_addresses", why: "it is postgres of nodes"}, {name: "port", why: "it is postgres of nodes"},
	{name: "unix_socket_directories", why: "it is socket"}, {name: "data_directory", why: "it is data"},
	{name: "config_file", why: "the recipe writes it"}, {name: "hba_file", why: "it is hba"},
	{name: "ident_file", why: "the recipe writes it"}, {name: "external_pid_file", why: "the recipe runs the server"},
	{name: "synchronous_standby_names", why: "it is confirm"}, {name: "promote_trigger_file", why: "a node is promoted by the election alone"},
	{name: "cluster_name", why: "it would be the name under which a replica confirms"},
	{name: "default_transaction_read_only", why: "the row of a term could not be written"},
	{name: "recovery_target", why: "a replica follows the leader"}, {name: "recovery_target_action", why: "a replica follows the leader"},
	{name: "recovery_target_inclusive", why: "a replica follows the leader"}, {name: "recovery_target_lsn", why: "a replica follows the leader"},
	{name: "recovery_target_name", why: "a replica follows the leader"}, {name: "recovery_target_time", why: "a replica follows the leader"},
	{name: "recovery_target_xid", why: "a replica follows the leader"},
	{name: "restore_command", others: true, why: "an archive may have WAL of a primary that was given up"},
	{name: "archive_cleanup_command", others: true, why: "there is no restore_command"},
	{name: "recovery_end_command", others: true, why: "there is no restore_command"},
	{name: "wal_receiver_status_interval", others: true, why: "the recipe sets it"},
	{name: "wal_retrieve_retry_interval", others: true, why: "the recipe sets it"},
}

// ParameterError is a parameter that users cannot set so.
type ParameterError struct {
	Name, Value string
	Want        []string // what they can set; nil is nothing
	Why         string
	own         bool
}

// Error implements error.
func (e *ParameterError) Error() string {
	if e.own || e.Want == nil {
		return fmt.Sprintf("the recipe sets %s itself; want no such parameter", e.Name)
	}
	return fmt.Sprintf("%s is %s; want %s: acknowledged commits would be lost", e.Name, e.Value, strings.Join(e.Want, " or "))
}

// CheckParameter returns what is wrong with a parameter of the user, which may be a *ParameterError; nil if nothing is.
func CheckParameter(name, value string) error {
	name = strings.ToLower(name)
	if name == "" || strings.ContainsAny(name+value, "\n\r\x00") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_.") != "" {
		return fmt.Errorf("the parameter %q is malformed; want a name of PostgreSQL's and one line", name)
	}
	for _, p := range parameters {
		if p.name == name && !slices.Contains(p.values, strings.ToLower(strings.TrimSpace(value))) {
			return &ParameterError{Name: name, Value: value, Want: p.values, Why: p.why, own: !p.others}
		}
	}
	return nil
}

// Try asks the PostgreSQL in a directory of programs what is wrong with a parameter of the user: it would not start with
// one that it does not know. There is no error if that cannot be asked, as by root, as which PostgreSQL does not run.
func Try(bin, name, value string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "-D", string(filepath.Separator), "--config-file="+os.DevNull, "-c", name+"="+value, "-C", "port")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var told strings.Builder
	cmd.Stderr = &told
	if cmd.Run() == nil {
		return nil
	}
	_, why, ok := strings.Cut(told.String(), "FATAL:")
	if !ok {
		return nil
	}
	why, _, _ = strings.Cut(strings.TrimSpace(why), "\n")
	return errors.New(why)
}
