package activity

// live are the versions that can be asked for today, by type.
var live = index(organizations, quorum, features, policies, mfa, ipAllowlists, sessionProfiles, sessions, interfaces, users, credentials, authenticators, oauthProviders, tags, invitations, wallets, privateKeys, transfer, signing, sending, votes, webhooks)
