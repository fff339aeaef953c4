// Package proxy holds the tests of the auth proxy as a browser meets it: over HTTP, through the host, against a real
// enclave. What comes of the caller's words inside is for enclave/internal/authproxy; here is who may call, what comes
// back, and that nothing but the proxy itself can act in the proxy's name.
package proxy
