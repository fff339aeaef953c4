// Package kinds lists every kind of activity: the families of all packages below package activity.
package kinds

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/auth"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/activity/tag"
	"cloister/enclave/internal/activity/tvc"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/activity/wallet"
)

// Live are the implemented activity types.
var Live = activity.NewTable(
	activity.Votes,

	organization.Organizations, organization.RootQuorum, organization.FeatureSwitches, organization.Policies,
	organization.IPAllowlists, organization.Webhooks, organization.Billing,

	user.Users, user.APIKeys, user.Authenticators, user.OauthProviders, user.MFAPolicies, user.Invitations,

	tag.Tags,

	wallet.Wallets, wallet.Keys, wallet.Transfer, wallet.Signing, wallet.Sending, wallet.ContractInterfaces, wallet.OnRamps,
	wallet.Secrets, wallet.Spark, wallet.Gas,

	tvc.Apps, tvc.Deployments, tvc.Approvals,

	auth.Sessions, auth.SessionProfiles, auth.Passcodes, auth.OTPLogins, auth.OauthLogins, auth.OAuth2, auth.Mails, auth.AuthProxy,
)
