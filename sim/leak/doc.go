// Package leak holds the leak scan: host and enclave run as `make run` starts them, with a
// recording proxy between them, while three organizations make 90 wallets each and sign 2,000
// times. Then the host's memory, its files, the logs and the recorded traffic are searched for
// every secret of the enclave in nine encodings, and the enclave's memory for keys that it
// should have forgotten. A second run sends passcodes by mail and text, and searches for those.
//
// Both are the ordinary build. The test learns the secrets by opening the deployment: see secrets_test.go.
package leak
