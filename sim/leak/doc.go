// Package leak holds the leak scan: host and enclave run as the processes that
// `make run` starts, with a recording proxy between them, while three
// organizations make 90 wallets each and sign 2,000 times. Then the host's
// memory, its files, the logs and the recorded traffic are searched for every
// secret of the enclave in nine encodings, and the enclave's memory for keys
// that it should have forgotten.
//
// A second run sends passcodes by mail and text, and searches for those.
//
// The enclave is built with the tag cloister_insecure, so that it can tell the
// test its secrets; the host is the ordinary build.
package leak
