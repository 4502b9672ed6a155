// Package address has only tests: of the virtual address of elect run, on three machines that are network namespaces
// behind one bridge, beside keepalived on the same faults. A client at the bridge asks for the address every
// millisecond, and notes which machine answers.
package address
