package address

import (
	"encoding/hex"
	"net/netip"
	"testing"
)

// TestAnnouncements compares frames with those of the RFCs, byte by byte; the checksums were computed apart.
func TestAnnouncements(t *testing.T) {
	mac := [6]byte{2, 0, 0, 0, 0, 7}
	for _, c := range []struct {
		ip     string
		router bool
		want   []string
	}{
		{ip: "192.0.2.10", want: []string{
			"ffffffffffff" + "020000000007" + "0806" + "0001080006040001" + "020000000007" + "c000020a" + "000000000000" + "c000020a",
			"ffffffffffff" + "020000000007" + "0806" + "0001080006040002" + "020000000007" + "c000020a" + "ffffffffffff" + "c000020a",
		}},
		{ip: "2001:db8::10", want: []string{
			"333300000001" + "020000000007" + "86dd" + "6000000000203aff" + "20010db8000000000000000000000010" + "ff020000000000000000000000000001" +
				"8800f90620000000" + "20010db8000000000000000000000010" + "0201020000000007",
		}},
		{ip: "2001:db8::10", router: true, want: []string{
			"333300000001" + "020000000007" + "86dd" + "6000000000203aff" + "20010db8000000000000000000000010" + "ff020000000000000000000000000001" +
				"88007906a0000000" + "20010db8000000000000000000000010" + "0201020000000007",
		}},
	} {
		got := Announcements(mac, netip.MustParseAddr(c.ip).AsSlice(), c.router)
		for i := range max(len(got), len(c.want)) {
			if i >= len(got) || i >= len(c.want) || hex.EncodeToString(got[i]) != c.want[i] {
				t.Errorf("%s: frame %d of %x; want %v", c.ip, i, got, c.want)
			}
		}
	}
}
