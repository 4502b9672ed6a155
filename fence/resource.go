package fence

import (
	"errors"
	"fmt"
	"strings"
)

// Resource names something that is guarded: a table, a key, a file, a service. Each has a mark of its own. A name has 1
// to [MaxResource] characters, letters and digits of ASCII and any of "._-/:@", and is case-sensitive.
type Resource string

// MaxResource is the greatest length of a resource's name, in characters.
const MaxResource = 128

// ErrResource is matched by every refusal of a resource's name: a malformed one, one that is not guarded here, and
// one that was never installed.
var ErrResource = errors.New("no such guarded resource")

// ParseResource reads the name of a resource. It refuses anything else, spaces too.
func ParseResource(s string) (Resource, error) {
	if s == "" || len(s) > MaxResource {
		return "", fmt.Errorf("%w: a name of %d characters; want 1 to %d", ErrResource, len(s), MaxResource)
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-/:@", c) >= 0) {
			return "", fmt.Errorf("%w: %q; want letters, digits and any of . _ - / : @", ErrResource, s)
		}
	}
	return Resource(s), nil
}

// String returns the name.
func (r Resource) String() string { return string(r) }

// Valid reports whether [ParseResource] accepts the name.
func (r Resource) Valid() bool {
	_, err := ParseResource(string(r))
	return err == nil
}
