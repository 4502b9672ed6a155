package fencefile

import (
	"errors"
	"fmt"
	"hash/crc64"
	"strconv"
	"strings"

	"github.com/electd/elect/fence"
)

// The content of a mark is text, for whoever looks at it in need:
//
//	elect fence mark 1
//	of orders
//	token 0000000000000000042
//	sum 0123456789abcdef
//
// The sum is the CRC-64 (ECMA) of all before its line. Nothing else is accepted.
const (
	recordHead    = "elect fence mark "
	recordVersion = "1"
	sumLine       = len("sum 0123456789abcdef\n")
	maxRecord     = 512

	// ownFile is what a sidecar is the mark of: the file beside it, whatever its name.
	ownFile = "file"
)

// ErrDamaged is what the error of a mark matches that cannot be read. It is never taken
// for 0, nor for an older one: whoever knows the greatest token that was given out can
// write a new one, by removing the file and claiming with a token above it.
var ErrDamaged = errors.New("the mark is damaged")

func encode(of string, token fence.Token) []byte {
	b := fmt.Appendf(nil, "%s%s\nof %s\ntoken %s\n", recordHead, recordVersion, of, token.Fixed())
	return append(b, sum(b)...)
}

func sum(b []byte) string {
	return fmt.Sprintf("sum %016x\n", crc64.Checksum(b, crc64.MakeTable(crc64.ECMA)))
}

// decode reads what encode wrote, the mark of the same thing.
func decode(of string, b []byte) (fence.Token, error) {
	if len(b) > maxRecord || len(b) < sumLine {
		return 0, fmt.Errorf("%w: it has %d bytes, or more; want %d to %d", ErrDamaged, len(b), sumLine, maxRecord)
	}
	body := b[:len(b)-sumLine]
	if string(b[len(body):]) != sum(body) {
		return 0, fmt.Errorf("%w: its checksum does not match", ErrDamaged)
	}
	lines := strings.Split(string(body), "\n")
	version, ok := strings.CutPrefix(lines[0], recordHead)
	if ok && version != recordVersion {
		return 0, fmt.Errorf("the mark has version %q; want %s, or a later release of elect", version, recordVersion)
	}
	if !ok || len(lines) != 4 {
		return 0, fmt.Errorf("%w: it does not begin with %q and three lines", ErrDamaged, recordHead+recordVersion)
	}
	if lines[1] != "of "+of {
		return 0, fmt.Errorf("%w: it is another's: %.200q; want that of %q", ErrDamaged, lines[1], of)
	}
	digits, _ := strings.CutPrefix(lines[2], "token ")
	n, err := strconv.ParseUint(digits, 10, 63)
	token := fence.Token(n)
	if err != nil || token != 0 && !token.Valid() || string(encode(of, token)) != string(b) {
		return 0, fmt.Errorf("%w: %.200q is no token", ErrDamaged, lines[2])
	}
	return token, nil
}
