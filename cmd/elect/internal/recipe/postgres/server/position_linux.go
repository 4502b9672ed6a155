package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// control is what pg_controldata says of the data directory.
func (s *Server) control(ctx context.Context) (map[string]string, error) {
	out, err := s.run(ctx, short, nil, "pg_controldata", "-D", s.data)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			all[name] = strings.TrimSpace(value)
		}
	}
	return all, nil
}

// known is what the control file says of where the WAL has been read or written.
type known struct {
	system   uint64
	segment  uint64 // its size in bytes
	timeline uint32 // of lsn
	lsn      uint64 // of the last checkpoint, or of the least to be replayed if that is greater: a record begins there
}

func (s *Server) known(ctx context.Context) (known, error) {
	all, err := s.control(ctx)
	if err != nil {
		return known{}, err
	}
	number := func(name string, bits int) uint64 {
		v, failed := strconv.ParseUint(all[name], 10, bits)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("pg_controldata says %q of %s; want a number", all[name], name))
		}
		return v
	}
	k, failed := knows(number("Database system identifier", 64), number("Bytes per WAL segment", 64),
		all["Latest checkpoint location"], uint32(number("Latest checkpoint's TimeLineID", 32)),
		all["Minimum recovery ending location"], uint32(number("Min recovery ending loc's timeline", 32)))
	return k, errors.Join(err, failed)
}

// knows is known from these fields of the control file: the last checkpoint and its timeline, and the least that has to
// be replayed and its timeline.
func knows(system, segment uint64, checkpoint string, timeline uint32, recovered string, least uint32) (known, error) {
	from, err := parseLSN(checkpoint)
	to, failed := parseLSN(recovered)
	k := known{system: system, segment: segment, timeline: timeline, lsn: from}
	if to > from {
		k.lsn, k.timeline = to, max(timeline, least)
	}
	return k, errors.Join(err, failed)
}

// epoch is a timeline in a history, and where it begins.
type epoch struct {
	timeline uint32
	begin    uint64
}

// history returns the text of a timeline's history file, and its timelines, the oldest first. Timeline 1 has no file.
func (s *Server) history(timeline uint32) (text string, all []epoch, err error) {
	if timeline <= 1 {
		return "", []epoch{{1, 0}}, nil
	}
	b, err := os.ReadFile(s.historyFile(timeline))
	if err != nil {
		return "", nil, err
	}
	all, err = parseHistory(string(b), timeline)
	return string(b), all, err
}

func (s *Server) historyFile(timeline uint32) string {
	return filepath.Join(s.data, "pg_wal", fmt.Sprintf("%08X.history", timeline))
}

// parseHistory reads lines of PARENT, where it ends, and a reason.
func parseHistory(text string, timeline uint32) (all []epoch, err error) {
	begin := uint64(0)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("the history of timeline %d has the line %q; want a timeline and where it ends", timeline, strings.TrimSpace(line))
		}
		parent, failed := strconv.ParseUint(fields[0], 10, 32)
		end, malformed := parseLSN(fields[1])
		if err := errors.Join(failed, malformed); err != nil {
			return nil, fmt.Errorf("the history of timeline %d: %w", timeline, err)
		}
		all = append(all, epoch{uint32(parent), begin})
		begin = end
	}
	return append(all, epoch{timeline, begin}), nil
}

// at is the index of the timeline in which the WAL at an LSN is.
func at(all []epoch, lsn uint64) int {
	i := len(all) - 1
	for i > 0 && all[i].begin > lsn {
		i--
	}
	return i
}

// through reports whether a history has an LSN on a timeline. Where one timeline ends and the next begins both have it.
func through(all []epoch, timeline uint32, lsn uint64) bool {
	i := slices.IndexFunc(all, func(e epoch) bool { return e.timeline == timeline })
	return i >= 0 && all[i].begin <= lsn && (i == len(all)-1 || lsn <= all[i+1].begin)
}

var (
	segmentName = regexp.MustCompile(`^([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})$`)
	historyName = regexp.MustCompile(`^([0-9A-F]{8})\.history$`)
	walRange    = regexp.MustCompile(`WAL statistics between (\S+) and (\S+?):?\s`)
)

// segmentFile is the name of the segment of a timeline with an LSN.
func segmentFile(timeline uint32, lsn, segment uint64) string {
	per := (1 << 32) / segment
	return fmt.Sprintf("%08X%08X%08X", timeline, lsn/segment/per, lsn/segment%per)
}

// segment reports whether there is a whole segment of that name. One that is shorter is left from a full disk.
func (s *Server) segment(name string, size uint64) bool {
	info, err := os.Stat(filepath.Join(s.data, "pg_wal", name))
	return err == nil && uint64(info.Size()) == size
}

// newest returns the history of the newest timeline of which there is WAL, among those that go through what the control
// file knows.
func (s *Server) newest(k known) ([]epoch, error) {
	entries, err := os.ReadDir(filepath.Join(s.data, "pg_wal"))
	if err != nil {
		return nil, err
	}
	last := map[uint32]uint64{} // the number of the newest segment of a timeline
	for _, e := range entries {
		if m := segmentName.FindStringSubmatch(e.Name()); m != nil && s.segment(e.Name(), k.segment) {
			log, _ := strconv.ParseUint(m[2], 16, 32)
			seg, _ := strconv.ParseUint(m[3], 16, 32)
			timeline, _ := strconv.ParseUint(m[1], 16, 32)
			last[uint32(timeline)] = max(last[uint32(timeline)], log*((1<<32)/k.segment)+seg)
		}
	}
	best := []epoch{{k.timeline, 0}}
	if _, all, err := s.history(k.timeline); err == nil {
		best = all
	}
	for timeline, segment := range last {
		if timeline <= best[len(best)-1].timeline {
			continue
		}
		_, all, err := s.history(timeline)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // what is left of a timeline that recovery does not know
		case err != nil:
			return nil, err
		}
		if begin := all[len(all)-1].begin; segment >= begin/k.segment && through(all, k.timeline, k.lsn) {
			best = all
		}
	}
	return best, nil
}

// walk returns the index of the timeline and the end of the valid WAL from an LSN on. It reads it as recovery does: the
// segment in which a timeline begins is that of the new timeline if there is one, although it may have been received
// once more from its start, and end earlier than that of the old one.
func (s *Server) walk(ctx context.Context, segment uint64, all []epoch, from uint64) (i int, end uint64, err error) {
	read := slices.Clone(all)
	for i, e := range read {
		if s.segment(segmentFile(e.timeline, e.begin, segment), segment) {
			read[i].begin = e.begin / segment * segment
		}
	}
	for i, end = at(read, from), from; ; i++ {
		stop := uint64(math.MaxUint64)
		if i+1 < len(read) {
			stop = read[i+1].begin
		}
		if end, err = s.valid(ctx, segment, read[i].timeline, end, portion); err != nil {
			return i, end, err
		}
		if end < stop {
			return i, end, nil
		}
		end = stop
	}
}

// extent is WAL of a stopped server that is valid: that of a timeline, between two LSNs.
type extent struct {
	timeline  uint32
	from, end uint64
}

// portion is how much WAL one program reads, in bytes.
const portion = 256 << 20

// valid returns the end of the valid WAL of a timeline from an LSN on. After a crash that is all since the last
// checkpoint, gigabytes where max_wal_size is. It is read in portions, and of a stopped server nothing is read twice: a
// caller whose context ends before that goes on by its next call.
func (s *Server) valid(ctx context.Context, segment uint64, timeline uint32, from, portion uint64) (uint64, error) {
	end, stopped := from, !s.Running()
	s.mu.Lock()
	if of := s.extent; stopped && of.timeline == timeline && of.from == from {
		end = of.end
	}
	s.mu.Unlock()
	stop := end / segment * segment
	for s.segment(segmentFile(timeline, stop, segment), segment) {
		stop += segment
	}
	for stop > end && !s.blank(segmentFile(timeline, end, segment)) {
		limit := min(stop, (end/segment+max(portion/segment, 1))*segment)
		next, more, err := s.read(ctx, segment, timeline, end, limit)
		if err != nil {
			return 0, err
		}
		if next == end {
			portion *= 4 // a record may be longer
		}
		end = next
		s.mu.Lock()
		if stopped {
			s.extent = extent{timeline, from, end}
		}
		s.mu.Unlock()
		if !more || limit == stop {
			break
		}
	}
	return end, nil
}

// read returns the end of the valid WAL between an LSN and the end of a segment, and whether it may go on there.
// pg_waldump is told where the segments end, because it waits five seconds for one that is not there, and in which file
// to begin: it reads the size of segments in the first file of the directory otherwise, which may be one that was made
// in advance and has zeros only.
func (s *Server) read(ctx context.Context, segment uint64, timeline uint32, from, limit uint64) (end uint64, more bool, err error) {
	out, err := s.run(ctx, medium, nil, "pg_waldump", "-p", filepath.Join(s.data, "pg_wal"), "-t", strconv.Itoa(int(timeline)), "-s", FormatLSN(from), "-e", FormatLSN(limit), "--stats",
		segmentFile(timeline, from, segment), segmentFile(timeline, limit-1, segment))
	if found := walRange.FindStringSubmatch(out); found != nil {
		end, malformed := parseLSN(found[2])
		return max(end, from), err == nil, malformed // it ends with an error where the valid WAL does
	}
	// There is none.
	if err != nil && strings.Contains(err.Error(), "could not find") {
		return from, true, nil
	}
	if err == nil {
		err = errors.New("pg_waldump does not say where the WAL ends")
	}
	return 0, false, err
}

// blank reports whether a segment was made in advance.
func (s *Server) blank(name string) bool {
	f, err := os.Open(filepath.Join(s.data, "pg_wal", name))
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [2]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && magic == [2]byte{}
}

// Position says where the WAL of the server ends, whether it runs or not.
func (s *Server) Position(ctx context.Context) (Position, error) {
	if !s.Running() {
		return s.stopped(ctx)
	}
	p, err := s.running(ctx)
	if err != nil && ctx.Err() == nil {
		// It does not accept connections: it has just started, or ended.
		return s.stopped(ctx)
	}
	return p, err
}

// stopped reads the files.
func (s *Server) stopped(ctx context.Context) (Position, error) {
	k, err := s.known(ctx)
	if err != nil {
		return Position{}, err
	}
	all, err := s.newest(k)
	if err != nil {
		return Position{}, err
	}
	i, end, err := s.walk(ctx, k.segment, all, k.lsn)
	if err != nil {
		return Position{}, err
	}
	p := Position{SystemID: k.system, Timeline: all[i].timeline, LSN: end}
	_, err = os.Stat(filepath.Join(s.data, "standby.signal"))
	p.InRecovery = err == nil
	return p, s.tell(&p)
}

// tell fills in the history.
func (s *Server) tell(p *Position) error {
	text, all, err := s.history(p.Timeline)
	if err != nil {
		return err
	}
	p.History, p.Begin = text, all[len(all)-1].begin
	return nil
}

// running asks the server.
func (s *Server) running(ctx context.Context) (Position, error) {
	type row struct {
		Position
		replayed, flushed, file string
		known                   known // of a standby
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := ask(limited, func(ctx context.Context) (r row, err error) {
		var system, timeline, segment, last, least int64
		var port int
		var host, checkpoint, recovered string
		// A walreceiver streams when it has had a message: its status says so before the primary has accepted it.
		err = s.db.QueryRowContext(ctx, `SELECT system_identifier, r.*, coalesce(w.streams, false), coalesce(w.timeline, 0), coalesce(w.flushed, '0/0'), coalesce(w.host, ''), coalesce(w.port, 0),
				bytes_per_wal_segment, checkpoint_lsn::text, timeline_id, min_recovery_end_lsn::text, min_recovery_end_timeline
			FROM pg_control_system(), pg_control_init(), pg_control_checkpoint(), pg_control_recovery(), LATERAL (SELECT pg_is_in_recovery() AS standby) AS m,
			LATERAL (SELECT m.standby, CASE WHEN m.standby THEN coalesce(pg_last_wal_replay_lsn()::text, '0/0') ELSE pg_current_wal_flush_lsn()::text END,
				CASE WHEN m.standby THEN '' ELSE pg_walfile_name(pg_current_wal_insert_lsn()) END) AS r
			LEFT JOIN (SELECT status = 'streaming' AND last_msg_send_time IS DISTINCT FROM last_msg_receipt_time AS streams, received_tli AS timeline,
				flushed_lsn::text AS flushed, sender_host AS host, sender_port AS port FROM pg_stat_wal_receiver) AS w ON true`).
			Scan(&system, &r.InRecovery, &r.replayed, &r.file, &r.Streaming, &timeline, &r.flushed, &host, &port,
				&segment, &checkpoint, &last, &recovered, &least)
		if err != nil {
			return r, err
		}
		r.SystemID, r.Timeline = uint64(system), uint32(timeline)
		r.known, err = knows(uint64(system), uint64(segment), checkpoint, uint32(last), recovered, uint32(least))
		if r.Streaming {
			r.From = net.JoinHostPort(host, strconv.Itoa(port))
		}
		return r, err
	})
	if err != nil {
		return Position{}, err
	}
	p := r.Position
	flushed, failed := parseLSN(r.flushed)
	if p.Replayed, err = parseLSN(r.replayed); errors.Join(err, failed) != nil {
		return p, errors.Join(err, failed)
	}
	switch {
	case !p.InRecovery:
		timeline, err := strconv.ParseUint(r.file[:min(8, len(r.file))], 16, 32)
		if err != nil {
			return p, fmt.Errorf("a WAL file is called %q; want the timeline first", r.file)
		}
		p.LSN, p.Timeline = p.Replayed, uint32(timeline)
	case p.Streaming:
		p.LSN = max(flushed, p.Replayed)
	default: // it may not have replayed all
		s.nudge()
		all, err := s.newest(r.known)
		if err != nil {
			return p, err
		}
		i, end, err := s.walk(ctx, r.known.segment, all, max(p.Replayed, r.known.lsn))
		if err != nil {
			return p, err
		}
		p.LSN, p.Timeline = end, all[i].timeline
	}
	return p, s.tell(&p)
}

// forget removes history files from which recovery, or the next promotion, would take a timeline that is not that of
// this server's WAL, nor of the primary that it is to follow.
func (s *Server) forget(ctx context.Context, from *Upstream) error {
	if from != nil && from.Timeline != 0 {
		_, err := s.foreign(*from)
		return errors.Join(err, s.discard(ctx))
	}
	p, err := s.stopped(ctx)
	if err != nil {
		return err
	}
	if err := s.discard(ctx); err != nil {
		return err
	}
	_, err = s.foreign(Upstream{Timeline: p.Timeline, History: p.History})
	return err
}

// discard removes segments that are not whole: recovery would end at the first of them.
func (s *Server) discard(ctx context.Context) error {
	k, err := s.known(ctx)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(s.data, "pg_wal"))
	for _, e := range entries {
		if segmentName.MatchString(e.Name()) && !s.segment(e.Name(), k.segment) {
			err = errors.Join(err, remove(filepath.Join(s.data, "pg_wal", e.Name())))
		}
	}
	return err
}

// foreign removes the history files that are not in the history of a primary, and returns their timelines. (A
// walreceiver does not fetch a file that is there, and recovery goes to the newest timeline of which it finds one.)
func (s *Server) foreign(from Upstream) (removed []uint32, err error) {
	if from.Timeline == 0 {
		return nil, nil
	}
	all, err := parseHistory(from.History, from.Timeline)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(s.data, "pg_wal"))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		m := historyName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		v, _ := strconv.ParseUint(m[1], 16, 32)
		timeline := uint32(v)
		i := slices.IndexFunc(all, func(e epoch) bool { return e.timeline == timeline })
		if i >= 0 {
			own, _, err := s.history(timeline)
			if err != nil {
				return removed, err
			}
			// The history of a timeline begins with that of its parent.
			if timeline == from.Timeline && own == from.History || timeline != from.Timeline && strings.HasPrefix(from.History, own) {
				continue
			}
		}
		if err := remove(s.historyFile(timeline)); err != nil {
			return removed, err
		}
		_ = os.Remove(filepath.Join(s.data, "pg_wal", "archive_status", e.Name()+".ready"))
		removed = append(removed, timeline)
	}
	return removed, nil
}

// parseLSN reads an LSN as PostgreSQL writes it.
func parseLSN(text string) (uint64, error) {
	high, low, ok := strings.Cut(text, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	l, failed := strconv.ParseUint(low, 16, 32)
	if err := cmp.Or(err, failed); err != nil || !ok {
		return 0, fmt.Errorf("an LSN is %q; want two hexadecimal numbers, as 0/1500000", text)
	}
	return h<<32 | l, nil
}
