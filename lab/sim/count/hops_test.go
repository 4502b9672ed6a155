package count

import (
	"reflect"
	"testing"

	"github.com/electd/elect/internal/protocol"
)

// TestSame holds that same looks at each field of a message.
func TestSame(t *testing.T) {
	var zero protocol.Message
	if !same(&zero, &zero) {
		t.Error("a message is not the same as itself")
	}
	for i := range reflect.TypeFor[protocol.Message]().NumField() {
		var m protocol.Message
		f := reflect.ValueOf(&m).Elem().Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(1)
		case reflect.Uint64:
			f.SetUint(1)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Array:
			f.Index(0).SetUint(1)
		case reflect.Struct:
			f.Field(0).Set(reflect.ValueOf(map[reflect.Type]any{
				reflect.TypeFor[protocol.ConfigID](): uint64(1), reflect.TypeFor[protocol.Leadership](): protocol.NodeID("x"),
			}[f.Type()]))
		default:
			t.Fatalf("a field of kind %v: teach this test", f.Kind())
		}
		if same(&m, &zero) || same(&zero, &m) {
			t.Errorf("%s is not looked at", reflect.TypeFor[protocol.Message]().Field(i).Name)
		}
		if !same(&m, &m) {
			t.Errorf("with %s a message is not the same as itself", reflect.TypeFor[protocol.Message]().Field(i).Name)
		}
	}
}

// TestHops holds that what goes in comes out, in order, across chunks.
func TestHops(t *testing.T) {
	var q hops
	next, want := uint32(0), uint32(0)
	for round := range 50 {
		for range 1000 * (1 + round%3) {
			q.push(hop{message: next})
			next++
		}
		for range 900 * (1 + round%3) {
			if h := q.pop(); h.message != want {
				t.Fatalf("%d came out; want %d", h.message, want)
			}
			want++
		}
	}
	for !q.empty() {
		if h := q.pop(); h.message != want {
			t.Fatalf("%d came out; want %d", h.message, want)
		}
		want++
	}
	if want != next || len(q.chunks) > 1 || q.last() != nil {
		t.Errorf("%d of %d came out, and %d chunks are left", want, next, len(q.chunks))
	}
}
