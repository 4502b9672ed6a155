//go:build !linux

package lines

// fromBackground does nothing: with `stty tostop` a line stops this process
// while the command has the terminal.
func fromBackground() {}
