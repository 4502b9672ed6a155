package redis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of what is read.
const (
	maxInline = 1 << 10  // bytes of a request in one line
	maxLine   = 1 << 16  // bytes of a line of a reply
	maxReply  = 64 << 20 // bytes of a bulk string of a reply: CLIENT LIST is long
	maxNested = 8
	maxItems  = 1 << 20 // of an array of a reply
)

// errProtocol is for what is not RESP.
var errProtocol = errors.New("protocol error")

// bounds are the limits of a request.
type bounds struct{ args, bytes int }

// strangers are the limits for anybody.
func strangers() bounds { return bounds{16, 1 << 10} }

// friends are the limits for those that have authenticated themselves.
func friends() bounds { return bounds{64, 1 << 16} }

// readRequest reads a request: an array of bulk strings, or a line of words. Its memory is bounded, whatever lengths
// the request claims. A request of no words is nil.
func readRequest(r *bufio.Reader, b bounds) ([]string, error) {
	line, err := readLine(r, maxInline)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "*") {
		words := strings.Fields(line)
		if len(words) > b.args {
			return nil, fmt.Errorf("%w: %d words; want at most %d", errProtocol, len(words), b.args)
		}
		return words, nil
	}
	n, err := length(line[1:], b.args)
	if err != nil {
		return nil, err
	}
	var args []string
	total := 0
	for range max(n, 0) {
		if line, err = readLine(r, 32); err != nil {
			return nil, unexpected(err)
		}
		size, err := length(strings.TrimPrefix(line, "$"), b.bytes-total)
		if err != nil || size < 0 || !strings.HasPrefix(line, "$") {
			return nil, fmt.Errorf("%w: %.40q; want a bulk string, and at most %d bytes in all", errProtocol, line, b.bytes)
		}
		text, err := readBulk(r, size)
		if err != nil {
			return nil, err
		}
		args, total = append(args, text), total+size
	}
	return args, nil
}

// replyError is an error that a server has answered.
type replyError string

func (e replyError) Error() string { return string(e) }

// readReply reads a reply: string, int64, nil, replyError, or []any of these.
func readReply(r *bufio.Reader, depth int) (any, error) {
	line, err := readLine(r, maxLine)
	if err != nil {
		return nil, err
	}
	if line == "" {
		return nil, fmt.Errorf("%w: an empty line", errProtocol)
	}
	rest := line[1:]
	switch line[0] {
	case '+':
		return rest, nil
	case '-':
		return replyError(rest), nil
	case ':':
		i, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %.40q is no number", errProtocol, rest)
		}
		return i, nil
	case '$':
		n, err := length(rest, maxReply)
		if n < 0 || err != nil {
			return nil, err
		}
		text, err := readBulk(r, n)
		return text, err
	case '*':
		n, err := length(rest, maxItems)
		if n < 0 || err != nil {
			return nil, err
		}
		if depth >= maxNested {
			return nil, fmt.Errorf("%w: arrays are nested too deeply", errProtocol)
		}
		all := []any{}
		for range n {
			one, err := readReply(r, depth+1)
			if err != nil {
				return nil, unexpected(err)
			}
			all = append(all, one)
		}
		return all, nil
	}
	return nil, fmt.Errorf("%w: %.40q is no reply", errProtocol, line)
}

// length reads the length of an array or a string; -1 is none.
func length(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("%w: the length %.40q; want one of at most %d", errProtocol, text, most)
	}
	return n, nil
}

// readLine reads a line without its end.
func readLine(r *bufio.Reader, most int) (string, error) {
	var b strings.Builder
	for {
		c, err := r.ReadByte()
		switch {
		case err != nil && b.Len() > 0:
			return "", unexpected(err)
		case err != nil:
			return "", err
		case c == '\n':
			return strings.TrimSuffix(b.String(), "\r"), nil
		case b.Len() >= most:
			return "", fmt.Errorf("%w: a line of more than %d bytes", errProtocol, most)
		}
		b.WriteByte(c)
	}
}

// readBulk reads the bytes of a string, and its end. The memory grows with what arrives.
func readBulk(r *bufio.Reader, n int) (string, error) {
	var b strings.Builder
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return "", unexpected(err)
	}
	var end [2]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return "", unexpected(err)
	}
	if end != [2]byte{'\r', '\n'} {
		return "", fmt.Errorf("%w: a string does not end where it says", errProtocol)
	}
	return b.String(), nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendRequest appends a request.
func appendRequest(b []byte, args ...string) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(args))
	for _, a := range args {
		b = appendBulk(b, a)
	}
	return b
}

func appendBulk(b []byte, text string) []byte {
	b = fmt.Appendf(b, "$%d\r\n", len(text))
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// pairs are keys and values in their order: a map of RESP3, an array of RESP2.
type pairs [][2]string

// push is a message that answers no request: of type push in RESP3, an array in RESP2.
type push []any

// simple is a string without quotes.
type simple string

// appendReply appends a reply of one of these types, of those of readReply, an int, or a list of pairs.
func appendReply(b []byte, protocol int, v any) []byte {
	switch v := v.(type) {
	case nil:
		if protocol == 3 {
			return append(b, "_\r\n"...)
		}
		return append(b, "$-1\r\n"...)
	case noArray:
		if protocol == 3 {
			return append(b, "_\r\n"...)
		}
		return append(b, "*-1\r\n"...)
	case simple:
		return fmt.Appendf(b, "+%s\r\n", string(v))
	case replyError:
		return fmt.Appendf(b, "-%s\r\n", strings.NewReplacer("\r", " ", "\n", " ").Replace(string(v)))
	case string:
		return appendBulk(b, v)
	case int:
		return fmt.Appendf(b, ":%d\r\n", v)
	case []any:
		return appendItems(fmt.Appendf(b, "*%d\r\n", len(v)), protocol, v)
	case push:
		kind := '*'
		if protocol == 3 {
			kind = '>'
		}
		return appendItems(fmt.Appendf(b, "%c%d\r\n", kind, len(v)), protocol, v)
	case pairs:
		if protocol == 3 {
			b = fmt.Appendf(b, "%%%d\r\n", len(v))
		} else {
			b = fmt.Appendf(b, "*%d\r\n", 2*len(v))
		}
		for _, p := range v {
			b = appendBulk(appendBulk(b, p[0]), p[1])
		}
		return b
	case hello:
		return v.append(b, protocol)
	}
	panic(fmt.Sprintf("redis: a reply of type %T", v))
}

// noArray is an array that is not there.
type noArray struct{}

func appendItems(b []byte, protocol int, items []any) []byte {
	for _, one := range items {
		b = appendReply(b, protocol, one)
	}
	return b
}

// hello is what HELLO answers: a map whose values have several types.
type hello struct {
	version string
	id      int
}

func (h hello) append(b []byte, protocol int) []byte {
	fields := []any{"server", "redis", "version", h.version, "proto", protocol, "id", h.id, "mode", "sentinel", "role", "sentinel", "modules", []any{}}
	if protocol == 3 {
		b = fmt.Appendf(b, "%%%d\r\n", len(fields)/2)
	} else {
		b = fmt.Appendf(b, "*%d\r\n", len(fields))
	}
	return appendItems(b, protocol, fields)
}
