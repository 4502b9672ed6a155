//go:build race

package disk

// stride leaves most of the second faults out: there are 80,000 outages.
const stride = 13
