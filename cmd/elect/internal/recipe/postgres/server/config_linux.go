package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"
)

// The files of this package in the data directory. They are written at each start.
const (
	confFile  = "elect.conf" // config_file; it includes postgresql.conf, which belongs to the user
	hbaFile   = "elect_hba.conf"
	probeFile = "elect.probe"
)

// nobody is what no standby is called: with it no commit is ever confirmed.
const nobody = "no term"

// defaults are parameters that the user's overrule. The time-outs find a connection that was cut: without them a slot is
// taken by a dead one for minutes.
func defaults(nodes int) map[string]string {
	return map[string]string{
		"wal_keep_size": "256MB", "max_slot_wal_keep_size": "4GB",
		"max_wal_senders": strconv.Itoa(max(10, 3*nodes)), "max_replication_slots": strconv.Itoa(max(10, 2*nodes)),
		"wal_sender_timeout": "10s", "wal_receiver_timeout": "10s", "wal_receiver_status_interval": "1s",
		"wal_retrieve_retry_interval": "100ms", // also how long a walreceiver takes to come back
		"tcp_keepalives_idle":         "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "tcp_user_timeout": "10s",
		"timezone": "UTC", "log_timezone": "UTC", "log_checkpoints": "off",
	}
}

// arguments are those of the postmaster. control is what pg_controldata says of a standby's data, or nil.
func (s *Server) arguments(cfg Config, control map[string]string) []string {
	host, port, _ := net.SplitHostPort(cfg.Listen)
	args := []string{"-D", s.data}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	set("elect.node", cfg.ID) // marks the process as one of this package
	set("config_file", filepath.Join(s.data, confFile))
	set("hba_file", filepath.Join(s.data, hbaFile))
	set("listen_addresses", cmp.Or(cfg.Addresses, host))
	set("port", port)
	set("unix_socket_directories", s.socket)
	set("cluster_name", cfg.ID)
	set("primary_slot_name", SlotName(cfg.ID))
	for _, p := range parameters {
		if p.fixed != "" {
			set(p.name, p.fixed)
		}
	}
	// Neither can ALTER SYSTEM, or postgresql.conf, have commits acknowledged that no replica has, nor WAL replayed that is
	// from elsewhere.
	set("synchronous_commit", commit(cfg))
	set("restore_command", "")
	// A standby does not start, or stops to replay, with less of these than the primary had (hot_standby's documentation).
	for _, p := range []struct{ name, in, initial string }{
		{"max_connections", "max_connections setting", "100"}, {"max_worker_processes", "max_worker_processes setting", "8"},
		{"max_wal_senders", "max_wal_senders setting", "10"}, {"max_prepared_transactions", "max_prepared_xacts setting", "0"},
		{"max_locks_per_transaction", "max_locks_per_xact setting", "64"},
	} {
		own := p.initial
		for _, from := range []map[string]string{defaults(1 + len(cfg.Nodes)), cfg.Parameters} {
			if v, ok := from[p.name]; ok {
				own = v
			}
		}
		had, _ := strconv.Atoi(control[p.in])
		if wants, err := strconv.Atoi(own); err == nil && wants < had {
			set(p.name, strconv.Itoa(had))
		}
	}
	return args
}

// commit is synchronous_commit.
func commit(cfg Config) string {
	for name, value := range cfg.Parameters {
		if strings.EqualFold(name, "synchronous_commit") {
			return value
		}
	}
	return "on"
}

// configure writes the files for a server that is the primary of the term of a token, or for a standby with 0.
func (s *Server) configure(cfg Config, token uint64) error {
	var conf bytes.Buffer
	fmt.Fprint(&conf, "# Written by elect at each start and each change. Own settings belong in its configuration.\ninclude_if_exists 'postgresql.conf'\n")
	all := defaults(1 + len(cfg.Nodes))
	maps.Copy(all, cfg.Parameters)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&conf, "%s = %s\n", name, quoted(all[name]))
	}
	fmt.Fprintf(&conf, "synchronous_standby_names = %s\n", quoted(standbyNames(cfg, token)))

	var hba bytes.Buffer
	fmt.Fprintf(&hba, "# Written by elect. The socket is open to the user of the server alone.\nlocal all %s trust\n", hbaName(cfg.Superuser))
	for _, database := range []string{"replication", "postgres"} {
		if cfg.Password != "" {
			fmt.Fprintf(&hba, "host %s %s all scram-sha-256\n", database, hbaName(cfg.Replication))
			continue
		}
		fmt.Fprintf(&hba, "host %s %s 127.0.0.1/32 trust\nhost %s %[2]s ::1/128 trust\n", database, hbaName(cfg.Replication), database)
	}
	for _, line := range cfg.HBA {
		fmt.Fprintln(&hba, line)
	}
	_, err := s.disarm()
	return errors.Join(err,
		replace(filepath.Join(s.data, confFile), conf.Bytes()),
		replace(filepath.Join(s.data, hbaFile), hba.Bytes()))
}

// standbyNames is synchronous_standby_names.
func standbyNames(cfg Config, token uint64) string {
	names := []string{`"` + nobody + `"`}
	if token != 0 {
		names = nil
		for _, n := range cfg.Nodes {
			names = append(names, `"`+strings.ReplaceAll(Name(n.ID, token), `"`, `""`)+`"`)
		}
	}
	return fmt.Sprintf("ANY %d (%s)", cfg.Confirm, strings.Join(names, ", "))
}

// disarm takes what users cannot set out of what ALTER SYSTEM has written, which overrules all files, and returns the
// names.
func (s *Server) disarm() (names []string, err error) {
	s.disarming.Lock()
	defer s.disarming.Unlock()
	path := filepath.Join(s.data, "postgresql.auto.conf")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept bytes.Buffer
	for line := range strings.Lines(string(text)) {
		if name, refused := refused(line); refused {
			names = append(names, name)
		} else {
			kept.WriteString(line)
		}
	}
	if names == nil {
		return nil, nil
	}
	return names, replace(path, kept.Bytes())
}

// refused reports whether a line of postgresql.auto.conf sets what users cannot set.
func refused(line string) (name string, is bool) {
	name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
	if name = strings.ToLower(strings.TrimSpace(name)); !ok || strings.HasPrefix(name, "#") {
		return "", false
	}
	if value = strings.TrimSpace(value); strings.HasPrefix(value, "'") {
		value = strings.NewReplacer("''", "'", `\\`, `\`).Replace(strings.TrimSuffix(value[1:], "'"))
	}
	_, is = errors.AsType[*ParameterError](CheckParameter(name, value))
	return name, is
}

func (s *Server) serviceFile() string {
	return filepath.Join(s.socket, SlotName(s.config().ID)+".service")
}

// serve writes who the primary is; nil is nobody: there is no file then, which works on a full disk, too.
func (s *Server) serve(from *Upstream) error {
	if from == nil {
		err := os.Remove(s.serviceFile())
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	cfg := s.config()
	var text bytes.Buffer
	fmt.Fprintf(&text, "[%s]\n", service)
	pairs := append(s.upstream(*from), "application_name", Name(cfg.ID, from.Token))
	if cfg.Password != "" {
		pairs = append(pairs, "password", cfg.Password)
	}
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&text, "%s=%s\n", pairs[i], pairs[i+1])
	}
	return replace(s.serviceFile(), text.Bytes())
}

// upstream are the names and values of a connection to another node. The time-outs find one that was cut.
func (s *Server) upstream(to Upstream) []string {
	host, port, _ := net.SplitHostPort(to.Address)
	return []string{
		"host", host, "port", port, "user", s.config().Replication,
		"connect_timeout", "3", "keepalives_idle", "5", "keepalives_interval", "2", "keepalives_count", "3", "tcp_user_timeout", "10000",
	}
}

// conninfo is a connection string of libpq from names and values.
func conninfo(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s='%s' ", pairs[i], strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(pairs[i+1]))
	}
	return b.String()
}

func quoted(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(value) + "'"
}

func hbaName(role string) string { return `"` + strings.ReplaceAll(role, `"`, `""`) + `"` }

// loaded is when the configuration was read that is in force for a new connection.
func (s *Server) loaded(ctx context.Context) (string, error) {
	return value[string](ctx, s, "SELECT pg_conf_load_time()::text")
}

// reloadTime is how long the postmaster may take to read its files. It does not say that it refuses them, but in its log.
const reloadTime = 5 * time.Second

// Reload puts a changed configuration into force. It returns the parameters that need a restart. ID, Bin, Data, Socket
// and the roles stay what they were. After an error the former configuration is in force.
func (s *Server) Reload(ctx context.Context, cfg Config) (restart []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reloadTime, errors.New("PostgreSQL has not taken its files; want its log read: one of them, such as postgresql.conf, has a line that it refuses"))
	defer cancel()
	old := s.config()
	cfg.ID, cfg.Bin, cfg.Data, cfg.Socket = old.ID, old.Bin, old.Data, old.Socket
	cfg.Superuser, cfg.Replication = old.Superuser, old.Replication
	if cfg, err = complete(cfg); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.cfg = cfg
	token := s.token
	s.mu.Unlock()
	if !s.Running() {
		return nil, nil
	}
	defer func() {
		if err != nil {
			s.mu.Lock()
			s.cfg = old
			s.mu.Unlock()
			err = errors.Join(err, s.configure(old, token), s.reload())
		}
	}()
	if err := s.configure(cfg, token); err != nil {
		return nil, err
	}
	// PostgreSQL would go on with the former lines, and not start with these.
	refused, err := value[string](ctx, s, "SELECT coalesce((array_agg(format('line %s of '||current_setting('hba_file')||': %s', line_number, error) ORDER BY line_number))[1], '') FROM pg_hba_file_rules WHERE error IS NOT NULL")
	if err != nil {
		return nil, err
	}
	if refused != "" {
		return nil, fmt.Errorf("hba: PostgreSQL refuses %s", refused)
	}
	loaded, err := s.loaded(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.reload(); err != nil {
		return nil, err
	}
	if cfg.Listen != old.Listen || cfg.Addresses != old.Addresses {
		restart = append(restart, "listen_addresses")
	}
	if commit(cfg) != commit(old) {
		restart = append(restart, "synchronous_commit")
	}
	for tick := time.NewTicker(poll); ; { // the postmaster reads, and then tells its processes
		now, err := s.loaded(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil || now != loaded {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	pending, err := value[pq.StringArray](ctx, s, "SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM pg_settings WHERE pending_restart")
	return append(restart, pending...), err
}
