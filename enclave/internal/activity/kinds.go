package activity

// Live are the versions that can be asked for today, by type.
var Live = NewTable(organizations, quorum, features, policies, mfa, ipAllowlists, sessionProfiles, sessions, passcodes, verifications, emailAuth, interfaces, users, credentials, authenticators, oauthProviders, oauth, oauth2, onRamps, tags, invitations, wallets, privateKeys, transfer, signing, sending, authProxy, votes, webhooks)
