package disk

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/internal/protocol"
)

// Identity says to which node a data directory belongs.
type Identity struct {
	Cluster  string          // 1 to 255 bytes of UTF-8
	Election string          // likewise
	ID       protocol.NodeID // the node
	Dir      protocol.DirID  // drawn when the directory was made
	Era      uint64          // of tokens: the greatest with which the directory was opened
}

// String is the identity for people, such as n1 of the election jobs in the
// cluster elect.
func (i Identity) String() string {
	return fmt.Sprintf("%s of the election %q in the cluster %q", i.ID, i.Election, i.Cluster)
}

func (i Identity) validate() error {
	for _, f := range []struct{ name, text string }{{"cluster", i.Cluster}, {"election", i.Election}} {
		if f.text == "" || len(f.text) > 255 || !utf8.ValidString(f.text) {
			return fmt.Errorf("%s %.40q: %d bytes; want 1 to 255 bytes of UTF-8", f.name, f.text, len(f.text))
		}
	}
	if i.Era > fence.MaxEra {
		return fmt.Errorf("era %d; want 0 to %d", i.Era, uint64(fence.MaxEra))
	}
	_, err := protocol.ParseNodeID(string(i.ID))
	return err
}

// identityFile is the content of the file identity.
type identityFile struct {
	Format   int             `json:"format"`
	Cluster  string          `json:"cluster"`
	Election string          `json:"election"`
	ID       protocol.NodeID `json:"id"`
	Dir      protocol.DirID  `json:"dir"`
	// Voted is set before the first Save returns: from then on there is a ballot.
	Voted bool   `json:"voted"`
	Era   uint64 `json:"era,omitempty"`
}

func encodeIdentity(i Identity, voted bool) ([]byte, error) {
	return seal(identityFile{format, i.Cluster, i.Election, i.ID, i.Dir, voted, i.Era})
}

// decodeIdentity reads what encodeIdentity wrote.
func decodeIdentity(text []byte) (i Identity, voted bool, err error) {
	var f identityFile
	if err := unseal(text, &f); err != nil {
		return i, false, err
	}
	i = Identity{f.Cluster, f.Election, f.ID, f.Dir, f.Era}
	if err := i.validate(); err != nil {
		return i, false, err
	}
	if i.Dir == (protocol.DirID{}) {
		return i, false, errors.New("its directory id is all zeros")
	}
	return i, f.Voted, nil
}
