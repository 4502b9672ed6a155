package peer

import (
	"reflect"
	"testing"
)

// TestPartsKnowEarlierParts: no part of a node knows the node or a part that follows it in Node.
func TestPartsKnowEarlierParts(t *testing.T) {
	node := reflect.TypeFor[Node]()
	index := map[reflect.Type]int{node: node.NumField()}
	for i := range node.NumField() {
		if f := node.Field(i); f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == node.PkgPath() {
			index[f.Type] = i
		}
	}
	if len(index) != 16 { // the node, its facts and fourteen parts
		t.Errorf("%d parts: %v", len(index), index)
	}
	for part, at := range index {
		for f := range part.Fields() {
			if f.Type.Kind() != reflect.Pointer {
				continue
			}
			if other, known := index[f.Type.Elem()]; known && other >= at {
				t.Errorf("%v knows %v, which is not before it", part, f.Type)
			}
		}
	}
}
