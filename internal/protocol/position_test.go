package protocol

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCompareNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "0", -1}, {"", "x", -1},
		{"9", "10", -1}, {"0009", "9", 0}, {"007", "7", 0}, {"0", "00", 0}, {"10", "010", 0},
		{"7.9", "7.10", -1}, {"7.10", "7.10", 0}, {"8.0", "7.10", 1},
		{"7", "7.1", -1}, {"7.", "7", 1},
		{"0/16B3748", "0/16B3750", -1}, {"a9", "b1", -1}, {"a", "9", 1},
		{"99999999999999999999999999999999998", "99999999999999999999999999999999999", -1},
		{"gtid:1-5,9", "gtid:1-12", -1},
		{strings.Repeat("0", 200) + "1", "2", -1},
	} {
		if got := CompareNumbers(c.a, c.b); got != c.want {
			t.Errorf("CompareNumbers(%q, %q) = %d; want %d", c.a, c.b, got, c.want)
		}
		if got := CompareNumbers(c.b, c.a); got != -c.want {
			t.Errorf("CompareNumbers(%q, %q) = %d; want %d", c.b, c.a, got, -c.want)
		}
	}
}

// CompareNumbers is transitive, and orders plain numbers as numbers.
func TestCompareNumbersIsAnOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	random := func() string {
		b := make([]byte, r.IntN(5))
		for i := range b {
			b[i] = "019a./"[r.IntN(6)]
		}
		return string(b)
	}
	for range 200_000 {
		a, b, c := random(), random(), random()
		ab, bc, ac := CompareNumbers(a, b), CompareNumbers(b, c), CompareNumbers(a, c)
		if ab != -CompareNumbers(b, a) || ab <= 0 && bc <= 0 && (ac > 0 || ac == 0 && ab+bc < 0) {
			t.Fatalf("%q, %q, %q: %d, %d and %d", a, b, c, ab, bc, ac)
		}
		x, y := r.IntN(2000), r.IntN(2000)
		if got, want := CompareNumbers(fmt.Sprint(x), fmt.Sprint(y)), cmp.Compare(x, y); got != want {
			t.Fatalf("%d and %d: %d", x, y, got)
		}
	}
}

func TestCompareNumbersInARow(t *testing.T) {
	ordered := []string{"", "-1", "2", "9", "10", "10.2", "10.10", "10a", "18446744073709551616", "a", "a9", "a10"}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := CompareNumbers(a, b); got != want {
				t.Errorf("CompareNumbers(%q, %q) = %d; want %d", a, b, got, want)
			}
		}
	}
}
