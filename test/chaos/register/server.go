//go:build linux

package register

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/electd/elect/test/chaos/lives"
)

// lineSize is the longest request, in bytes.
const lineSize = 4096

// Server is a register that serves.
type Server struct {
	path     string
	listener *net.UnixListener
	clock    lives.Clock
	all      sync.WaitGroup

	mu     sync.Mutex
	states map[int64]*state // by key
	log    *os.File
	conns  map[net.Conn]bool // nil when the server was closed
	failed error             // the first line that could not be written
}

// Serve serves at the unix socket path, dir/register.sock, until Close. It begins
// with nothing written and no token shown, and so a run has one server: where one
// has left its log, it is refused.
func Serve(path string) (*Server, error) {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(path), ends), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("register: a register has served this run before, or its log cannot be made: %w", err)
	}
	s := &Server{path: path, clock: lives.NewClock(), log: log, states: map[int64]*state{}, conns: map[net.Conn]bool{}}
	err = reach(path, func(address string) (err error) {
		s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
		return err
	})
	if err != nil {
		log.Close()
		os.Remove(log.Name())
		return nil, fmt.Errorf("register: %w", err)
	}
	s.listener.SetUnlinkOnClose(false) // not by the address through which it was reached
	s.all.Go(s.accept)
	return s, nil
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum Stats
	for _, of := range s.states {
		sum.Writes += of.stats.Writes
		sum.Refused += of.stats.Refused
		sum.Streams += of.stats.Streams
		sum.OutOfTurn += of.stats.OutOfTurn
		sum.Reads += of.stats.Reads
	}
	return sum
}

// Close ends all connections and the server. An error says what could not be recorded.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.conns == nil {
		s.mu.Unlock()
		return nil
	}
	for conn := range s.conns {
		conn.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	err := s.listener.Close()
	s.all.Wait()
	if s.failed == nil { // otherwise an outcome may be missing, and the log must not look whole
		s.write(line{Closed: s.clock.Now()})
	}
	return errors.Join(err, os.Remove(s.path), s.failed, s.log.Close())
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.fail(err)
			}
			return
		}
		s.mu.Lock()
		if s.conns == nil {
			conn.Close()
		} else {
			s.conns[conn] = true
			s.all.Go(func() { s.serve(conn) })
		}
		s.mu.Unlock()
	}
}

// serve answers one client until either end is closed, and then records its last request: the only
// one whose answer may have been lost.
func (s *Server) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	var last line
	in := bufio.NewReaderSize(conn, lineSize)
	for {
		text, err := in.ReadSlice('\n')
		if err != nil {
			break // what has no end is no request
		}
		answer, at := s.answer(text)
		if answer.Result != Failed {
			last = answer
			last.Return = at
		}
		answer.Client = "" // it knows
		if _, err := conn.Write(answer.bytes()); err != nil || answer.Result == Failed {
			break
		}
	}
	if last.N != 0 {
		s.write(last)
	}
}

// answer carries out a request, and records the time at which that was done.
func (s *Server) answer(text []byte) (a line, at int64) {
	r, err := parse(text)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return line{N: r.N, Result: Failed, Why: err.Error()}, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.states[r.Key]
	if of == nil {
		of = &state{}
		s.states[r.Key] = of
	}
	a = of.apply(r)
	a.Client = r.Client
	return a, s.clock.Now()
}

func (s *Server) write(l line) {
	if _, err := s.log.Write(l.bytes()); err != nil {
		s.fail(err)
	}
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = fmt.Errorf("register: %w", err)
	}
}
