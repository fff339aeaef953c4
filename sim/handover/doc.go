// Package handover holds what one enclave gives the next against those who should get nothing, moves a
// deployment under load, and drills a new storage key. Its tests are all there is.
package handover
