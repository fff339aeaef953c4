// Package matrix holds who may do what against the running product: every live operation as
// every kind of principal, compared with a table written by hand, and random reads across
// tenants that must learn nothing. It has only tests.
package matrix
