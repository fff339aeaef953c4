// Package handover holds what one enclave gives the next against those who should get
// nothing, and moves a deployment under load. Its tests are all there is.
package handover
