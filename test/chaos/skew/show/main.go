// Command show tells what the product reads from its clocks: a line for each line
// on stdin, with CLOCK_BOOTTIME and CLOCK_MONOTONIC in nanoseconds. It is for the
// tests of package skew, which build it with and without the tag chaos.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/electd/elect/internal/clock"
)

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		p := clock.ReadPair()
		fmt.Println(int64(p.Boot), int64(p.Mono))
	}
}
