package keeper

import (
	"encoding/binary"
	"fmt"
)

// Lead is a leadership in a message to the keeper.
type Lead struct {
	Id        uint64
	At        int64 // the deadline on the shared clock; 0 is none
	Files     int
	Testament []byte
}

const leadHead = 8 + 8 + 1

// AppendLead appends a frame of kind k with a leadership.
func AppendLead(dst []byte, k Kind, l Lead) []byte {
	payload := make([]byte, 0, leadHead+len(l.Testament))
	payload = binary.BigEndian.AppendUint64(payload, l.Id)
	payload = binary.BigEndian.AppendUint64(payload, uint64(l.At))
	payload = append(payload, byte(l.Files))
	return AppendFrame(dst, k, append(payload, l.Testament...))
}

// LoadLead reads what AppendLead wrote. The testament points into the payload.
func LoadLead(payload []byte) (Lead, error) {
	if len(payload) < leadHead || len(payload) > leadHead+MaxTestament || payload[16] > MaxKeep {
		return Lead{}, fmt.Errorf("supervise: a leadership in %d bytes is malformed", len(payload))
	}
	return Lead{
		Id: binary.BigEndian.Uint64(payload), At: int64(binary.BigEndian.Uint64(payload[8:])),
		Files: int(payload[16]), Testament: payload[leadHead:],
	}, nil
}
