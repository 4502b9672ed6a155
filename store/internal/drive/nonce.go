package drive

import (
	"fmt"
	"strconv"

	"github.com/electd/elect/internal/protocol"
)

// ParseNonce reads what Nonce.String has written.
func ParseNonce(text string) (n protocol.Nonce, err error) {
	if len(text) == 32 {
		if n[0], err = strconv.ParseUint(text[:16], 16, 64); err == nil {
			n[1], err = strconv.ParseUint(text[16:], 16, 64)
		}
		if err == nil {
			return n, nil
		}
	}
	return n, fmt.Errorf("nonce %.40q; want 32 hexadecimal digits", text)
}
