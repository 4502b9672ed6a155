package fence_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/electd/elect/fence"
)

// A resource keeps the greatest token that it has seen and refuses smaller
// ones. A real one keeps it durably, and checks and writes in one atomic step.
func Example() {
	var highest fence.Token
	write := func(token fence.Token, what string) error {
		if token < highest {
			return &fence.StaleError{Shown: token, Highest: highest}
		}
		highest = token
		fmt.Println("written:", what)
		return nil
	}

	_ = write(41, "by the first leader")
	_ = write(42, "by the second leader")
	err := write(41, "by the first leader, who has not heard")
	fmt.Println(err, errors.Is(err, fence.ErrStale))
	// Output:
	// written: by the first leader
	// written: by the second leader
	// stale fencing token: 41 shown, the resource has seen 42 true
}

func ExampleNewToken() {
	before, _ := fence.NewToken(0, 1_000_000)
	after, _ := fence.NewToken(1, 1) // the store was made anew, and counts from 1
	fmt.Println(after > before)
	_, err := fence.NewToken(0, 0)
	fmt.Println(err)
	// Output:
	// true
	// invalid fencing token: a count starts at 1
}

func ExampleParseToken() {
	token, err := fence.ParseToken("0000000000000000042")
	fmt.Println(token, err)
	_, err = fence.ParseToken("forty-two")
	fmt.Println(err)
	// Output:
	// 42 <nil>
	// invalid fencing token: "forty-two"; want decimal digits only
}

func ExampleToken_Fixed() {
	fmt.Println(fence.Token(42).Fixed())
	// Output: 0000000000000000042
}

func ExampleToken_String() {
	fmt.Println(fence.Token(42))
	// Output: 42
}

func ExampleToken_Era() {
	token, _ := fence.NewToken(3, 7)
	fmt.Println(token.Era(), token.Count(), token.Valid())
	// Output: 3 7 true
}

func ExampleToken_MarshalText() {
	text, _ := json.Marshal(map[string]fence.Token{"token": 1<<53 + 1})
	fmt.Println(string(text))
	// Output: {"token":"9007199254740993"}
}

func ExampleToken_UnmarshalText() {
	var message struct{ Token fence.Token }
	err := json.Unmarshal([]byte(`{"token":"9007199254740993"}`), &message)
	fmt.Println(message.Token, err)
	// Output: 9007199254740993 <nil>
}

func ExampleSequence_Compare() {
	last := fence.Sequence{Token: 41, Position: 1000}
	next := fence.Sequence{Token: 42, Position: 1} // of the next leader
	fmt.Println(next.Compare(last))
	// Output: 1
}

func ExampleParseSequence() {
	s, err := fence.ParseSequence("42/7")
	fmt.Println(s.Token, s.Position, err)
	// Output: 42 7 <nil>
}

func ExampleParseShown() {
	shown, err := fence.ParseShown("orders;42")
	fmt.Println(shown.Resource, shown.Token, err)
	_, err = fence.ParseShown("orders=42")
	fmt.Println(err)
	// Output:
	// orders 42 <nil>
	// invalid fencing token: "orders=42"; want RESOURCE;TOKEN, as in orders;42
}
