// Package sweep holds the test that every single failure of the store and of the connection is survived.
//
// One scenario, from boot over an orderly stop to a second boot, is run undisturbed to count the
// calls of the store and the frames between host and enclave. Then it is run again for each of
// them, which fails: a store call before or after it has an effect, a connection before a frame,
// in its middle or behind it. The client sends the same body until it has an answer. In the end
// everything acknowledged is there exactly once, and nothing else is.
package sweep
