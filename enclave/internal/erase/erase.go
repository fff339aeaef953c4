// Package erase runs what handles private bytes. In builds with
// GOEXPERIMENT=runtimesecret, stack and registers are erased when it returns and
// what it allocated when the collector frees it; other builds leave traces.
//
// Which key is handled here goes by how long it lives. One that is opened or derived
// for a request must leave nothing behind, so every use of it is inside Do. One that
// lies in memory for the whole boot (the boot's own keys, the signers of tokens, bundles
// and webhooks, the blind-index key, the storage key) is inside Do only while it is made
// from bytes that are then forgotten: who could read what its use leaves behind could
// read the key, and two signatures of app proofs in Do would cost a quarter of a request.
//
// Results go into variables of the caller. An allocation made inside costs about
// 0.3 microseconds more than outside, so there should be few.
package erase
