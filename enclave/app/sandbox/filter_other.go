//go:build !amd64

package sandbox

import "errors"

// filter is written for one processor alone: the numbers of system calls differ.
func filter() error { return errors.New("programs are confined on x86-64 alone") }
