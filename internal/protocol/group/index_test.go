package group

import (
	"fmt"
	"testing"
)

type keyList []Key

func (l keyList) at(place uint32) Key { return l[place] }

// FuzzIndex compares an index with a map. Each byte adds a key, moves it to a new place, or removes it.
func FuzzIndex(f *testing.F) {
	f.Add([]byte{1, 2, 3, 1, 2, 129, 130, 1, 64, 192, 64})
	all := make([]byte, 512)
	for i := range all {
		all[i] = byte(i * 37)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, does []byte) {
		var x index
		var list keyList
		twin := map[Key]uint32{}
		for _, b := range does {
			k := Key(fmt.Sprint(b % 64))
			next := uint32(len(list))
			list = append(list, k)
			switch place, ok := twin[k]; {
			case !ok:
				x.add(k, next)
				twin[k] = next
			case b < 128:
				x.move(k, place, next)
				twin[k] = next
			default:
				x.remove(k, place)
				delete(twin, k)
			}
			if x.used != len(twin) || 5*x.used > 4*len(x.slots) {
				t.Fatalf("%d of %d slots in use; want %d", x.used, len(x.slots), len(twin))
			}
			for i := range 64 {
				k := Key(fmt.Sprint(i))
				want, there := twin[k]
				if place, ok := x.find(k, list); ok != there || place != want {
					t.Fatalf("%q is at %d, %t; want %d, %t", k, place, ok, want, there)
				}
			}
		}
	})
}
