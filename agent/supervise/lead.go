package supervise

import (
	"encoding/binary"
	"fmt"
)

// lead is a leadership in a message to the keeper.
type lead struct {
	id        uint64
	at        int64 // the deadline on the shared clock; 0 is none
	files     int
	testament []byte
}

const leadHead = 8 + 8 + 1

func appendLead(dst []byte, k kind, l lead) []byte {
	payload := make([]byte, 0, leadHead+len(l.testament))
	payload = binary.BigEndian.AppendUint64(payload, l.id)
	payload = binary.BigEndian.AppendUint64(payload, uint64(l.at))
	payload = append(payload, byte(l.files))
	return appendFrame(dst, k, append(payload, l.testament...))
}

// loadLead reads what appendLead wrote. The testament points into the payload.
func loadLead(payload []byte) (lead, error) {
	if len(payload) < leadHead || len(payload) > leadHead+maxTestament || payload[16] > maxKeep {
		return lead{}, fmt.Errorf("supervise: a leadership in %d bytes is malformed", len(payload))
	}
	return lead{
		id: binary.BigEndian.Uint64(payload), at: int64(binary.BigEndian.Uint64(payload[8:])),
		files: int(payload[16]), testament: payload[leadHead:],
	}, nil
}
