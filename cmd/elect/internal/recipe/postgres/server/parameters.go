package server

import (
	"fmt"
	"slices"
	"strings"
)

// service is the name in primary_conninfo, and in the file that says who the primary is.
const service = "elect"

// owned are parameters that a Server sets by itself. Those with a value are arguments of the postmaster, which ALTER
// SYSTEM cannot overrule.
func owned() map[string]string {
	return map[string]string{
		"fsync": "on", "full_page_writes": "on", "wal_log_hints": "on", "hot_standby": "on", "restart_after_crash": "on",
		"recovery_target_timeline": "latest", "recovery_min_apply_delay": "0", "logging_collector": "off", "log_destination": "stderr",
		"lc_messages": "C", "primary_conninfo": "service=" + service, "unix_socket_permissions": "0700",
		"config_file": "", "hba_file": "", "ident_file": "", "data_directory": "", "external_pid_file": "", "listen_addresses": "", "port": "",
		"unix_socket_directories": "", "cluster_name": "", "synchronous_standby_names": "", "primary_slot_name": "", "recovery_target": "",
		"recovery_target_action": "", "recovery_target_inclusive": "", "recovery_target_lsn": "", "recovery_target_name": "",
		"recovery_target_time": "", "recovery_target_xid": "", "promote_trigger_file": "", "default_transaction_read_only": "",
	}
}

// CheckParameter returns what is wrong with a parameter of the user; nil if nothing is.
func CheckParameter(name, value string) error {
	name = strings.ToLower(name)
	if fixed, ok := owned()[name]; ok {
		if value = strings.ToLower(value); fixed != "" && (value == fixed || fixed == "on" && slices.Contains([]string{"true", "yes", "1"}, value)) {
			return nil
		}
		return fmt.Errorf("the recipe sets %s itself; want no such parameter", name)
	}
	allowed := map[string][]string{"synchronous_commit": {"on", "remote_apply"}, "wal_level": {"replica", "logical"}}[name]
	switch {
	case name == "" || strings.ContainsAny(name+value, "\n\r\x00") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_.") != "":
		return fmt.Errorf("the parameter %q is malformed; want a name of PostgreSQL's and one line", name)
	case allowed != nil && !slices.Contains(allowed, strings.ToLower(value)):
		return fmt.Errorf("%s is %s; want %s: acknowledged commits would be lost", name, value, strings.Join(allowed, " or "))
	}
	return nil
}
