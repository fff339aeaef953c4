package activity

// live are the versions that can be asked for today, by type.
var live = index(organizations, users, credentials, wallets, privateKeys, signing)
