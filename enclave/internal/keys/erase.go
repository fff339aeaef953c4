package keys

import "cloister/enclave/internal/erase"

// Erasing reports whether this build erases stack, registers and freed heap of
// everything that handles private bytes.
const Erasing = erase.Enabled

// do runs f, which handles private bytes.
func do(f func()) { erase.Do(f) }
