package supervise_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// session is a session of PostgreSQL, as user elect without a password.
type session struct {
	conn net.Conn
	from *bufio.Reader
}

func openSession(addr string) (*session, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &session{c, bufio.NewReader(c)}
	_, err = s.ask("", "\x00\x03\x00\x00user\x00elect\x00database\x00postgres\x00\x00") // version 3.0
	return s, err
}

// query runs a statement, and returns the only column of its last row.
func (s *session) query(sql string) (row string, err error) { return s.ask("Q", sql+"\x00") }

// ask sends a message of a type, and reads until the server is ready for the next.
func (s *session) ask(kind, body string) (row string, err error) {
	message := binary.BigEndian.AppendUint32([]byte(kind), uint32(len(body)+4))
	if _, err := s.conn.Write(append(message, body...)); err != nil {
		return "", err
	}
	for {
		head := make([]byte, 5) // type and length
		if _, e := io.ReadFull(s.from, head); e != nil {
			return "", errors.Join(err, e)
		}
		data := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, e := io.ReadFull(s.from, data); e != nil {
			return "", errors.Join(err, e)
		}
		switch head[0] {
		case 'D':
			row = string(data[6:]) // after the number of columns, and its length
		case 'E':
			err = fmt.Errorf("PostgreSQL: %q", data)
		case 'Z':
			return row, err
		}
	}
}

var rows atomic.Int64 // that database has made

// database makes an inbox of a PostgreSQL that checks nothing: it passes on to the server at addr what it reads. A
// writer has a row of its own.
func database(t *testing.T, addr string) (i *inbox, row int64) {
	t.Helper()
	s, err := openSession(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
	query := func(sql string) int64 {
		answer, err := s.query(sql)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.ParseInt(answer, 10, 64)
		return n
	}
	row = rows.Add(1)
	if row == 1 {
		query("DROP TABLE IF EXISTS written; CREATE TABLE written (id int PRIMARY KEY, n int)")
	}
	query(fmt.Sprintf("INSERT INTO written VALUES (%d, 0)", row))
	i = listenTo(t, "PostgreSQL", len(sqlSteps), func(c net.Conn) func(string) {
		server, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return func(string) {}
		}
		go func() {
			defer server.Close()
			_, _ = io.Copy(c, server)
		}()
		return func(text string) {
			if text == "" {
				server.Close()
				return
			}
			_, _ = io.Copy(server, strings.NewReader(text))
		}
	})
	i.committed = func() int64 { return query(fmt.Sprintf("SELECT n FROM written WHERE id = %d", row)) }
	return i, row
}
