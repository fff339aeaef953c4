// Package policies holds the test that the cases of the policy engine come out over the public interface as they are
// written: organizations, users, tags, wallets and policies are made by requests, the case's request is stamped and sent
// over HTTP, the approvals follow, and outcome and evaluations are compared.
package policies
