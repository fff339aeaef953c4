// Package votes holds the test that activities, votes, windows and quorum follow a model written apart from the code.
//
// The model (model_test.go) is a few hundred lines that know nothing of the enclave: users with keys, a root quorum,
// policies of a few shapes, activities with votes, a clock. Ten thousand random histories are played to a real host and
// enclave under a clock of the test, and after every step what the enclave answers is held against what the model says.
// A history that does not agree is shrunk and printed as a script.
package votes
