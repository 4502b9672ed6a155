package fencefile

import (
	"errors"
	"fmt"
	"hash/crc64"
	"strconv"
	"strings"

	"github.com/electd/elect/fence"
)

// The content of a mark is text, so that an operator can read it:
//
//	elect fence mark 1
//	of orders
//	token 0000000000000000042
//	sum 0123456789abcdef
//
// The sum is the CRC-64 (ECMA) of everything before its line. Nothing else is accepted.
const (
	recordHead    = "elect fence mark "
	recordVersion = "1"
	sumLine       = len("sum 0123456789abcdef\n")
	maxRecord     = 512

	// ownFile is the subject of a sidecar's mark: the file beside it, whatever its name.
	ownFile = "file"
)

// ErrDamaged is matched by the error of a mark that cannot be read. Such a mark never counts as 0, nor as an older
// one. An operator who knows the greatest issued token can replace it: remove the file, and claim with a token above
// that.
var ErrDamaged = errors.New("the mark is damaged")

func encode(of string, token fence.Token) []byte {
	b := fmt.Appendf(nil, "%s%s\nof %s\ntoken %s\n", recordHead, recordVersion, of, token.Fixed())
	return append(b, sum(b)...)
}

func sum(b []byte) string {
	return fmt.Sprintf("sum %016x\n", crc64.Checksum(b, crc64.MakeTable(crc64.ECMA)))
}

// decode reads what encode wrote for the same subject.
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
