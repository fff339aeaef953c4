package eth

// Checksummed is the unexported function under test.
var Checksummed = checksumAddress
