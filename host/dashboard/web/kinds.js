// What activities do, and what became of them, as people say it. TestKinds holds the names against the types that are served.

import { bareType } from "./refusals.js";
import { words } from "./words.js";

const names = {
  ACCEPT_INVITATION: "Accept an invitation",
  ACTIVATE_BILLING_TIER: "Choose a plan",
  APPROVE_ACTIVITY: "Approve an activity",
  CREATE_API_KEYS: "Add API keys",
  CREATE_API_ONLY_USERS: "Create users for programs",
  CREATE_AUTHENTICATORS: "Add passkeys",
  CREATE_FIAT_ON_RAMP_CREDENTIAL: "Add an on-ramp account",
  CREATE_INVITATIONS: "Invite people",
  CREATE_MFA_POLICY: "Create an MFA policy",
  CREATE_OAUTH2_CREDENTIAL: "Add an OAuth 2.0 client",
  CREATE_OAUTH_PROVIDERS: "Add social sign-ins",
  CREATE_ORGANIZATION: "Create an organization",
  CREATE_POLICIES: "Create several policies",
  CREATE_POLICY: "Create a policy",
  CREATE_PRIVATE_KEYS: "Create private keys",
  CREATE_PRIVATE_KEY_TAG: "Create a tag for private keys",
  CREATE_READ_ONLY_SESSION: "Start a session for reading",
  CREATE_READ_WRITE_SESSION: "Start a session",
  CREATE_SESSION_PROFILE: "Create a session profile",
  CREATE_SMART_CONTRACT_INTERFACE: "Upload a contract's interface",
  CREATE_SUB_ORGANIZATION: "Create a sub-organization",
  CREATE_TVC_APP: "Create a program",
  CREATE_TVC_DEPLOYMENT: "Deploy a program",
  CREATE_TVC_MANIFEST_APPROVALS: "Approve a program's manifest",
  CREATE_TVC_OPERATOR: "Add a program's operator",
  CREATE_TVC_QUORUM_KEY: "Create a program's key",
  CREATE_USERS: "Create users",
  CREATE_USER_TAG: "Create a tag for users",
  CREATE_WALLET: "Create a wallet",
  CREATE_WALLET_ACCOUNTS: "Add accounts to a wallet",
  CREATE_WEBHOOK_ENDPOINT: "Create a webhook",
  DELETE_API_KEYS: "Delete API keys",
  DELETE_AUTHENTICATORS: "Delete passkeys",
  DELETE_FIAT_ON_RAMP_CREDENTIAL: "Delete an on-ramp account",
  DELETE_INVITATION: "Delete an invitation",
  DELETE_MFA_POLICY: "Delete an MFA policy",
  DELETE_OAUTH2_CREDENTIAL: "Delete an OAuth 2.0 client",
  DELETE_OAUTH_PROVIDERS: "Delete social sign-ins",
  DELETE_ORGANIZATION: "Delete the organization",
  DELETE_PAYMENT_METHOD: "Delete the payment method",
  DELETE_POLICIES: "Delete several policies",
  DELETE_POLICY: "Delete a policy",
  DELETE_PRIVATE_KEYS: "Delete private keys",
  DELETE_PRIVATE_KEY_TAGS: "Delete tags of private keys",
  DELETE_SECRETS: "Delete secrets",
  DELETE_SMART_CONTRACT_INTERFACE: "Delete a contract's interface",
  DELETE_SUB_ORGANIZATION: "Delete a sub-organization",
  DELETE_TVC_APP_AND_DEPLOYMENTS: "Delete a program and its deployments",
  DELETE_TVC_DEPLOYMENT: "Delete a program's deployment",
  DELETE_USERS: "Delete users",
  DELETE_USER_TAGS: "Delete tags of users",
  DELETE_WALLETS: "Delete wallets",
  DELETE_WALLET_ACCOUNTS: "Delete accounts of a wallet",
  DELETE_WEBHOOK_ENDPOINT: "Delete a webhook",
  DISABLE_AUTH_PROXY: "Turn off the auth proxy",
  DISABLE_PRIVATE_KEY: "Turn off a private key",
  EMAIL_AUTH: "Send a sign-in key by e-mail",
  ENABLE_AUTH_PROXY: "Turn on the auth proxy",
  ETH_SEND_RAW_TRANSACTION: "Send a signed transaction on Ethereum",
  ETH_SEND_TRANSACTION: "Sign and send a transaction on Ethereum",
  ETH_UNDELEGATE_7702: "Remove the code that an Ethereum account runs",
  EXPORT_HISTORY: "Export the history",
  EXPORT_PRIVATE_KEY: "Export a private key",
  EXPORT_SECRETS: "Export secrets",
  EXPORT_WALLET: "Export a wallet",
  EXPORT_WALLET_ACCOUNT: "Export an account of a wallet",
  IMPORT_PRIVATE_KEY: "Import a private key",
  IMPORT_SECRETS: "Import secrets",
  IMPORT_WALLET: "Import a wallet",
  INIT_FIAT_ON_RAMP: "Open an on-ramp",
  INIT_IMPORT_PRIVATE_KEY: "Begin to import a private key",
  INIT_IMPORT_SECRETS: "Begin to import secrets",
  INIT_IMPORT_WALLET: "Begin to import a wallet",
  INIT_OTP: "Send a code",
  INIT_OTP_AUTH: "Send a sign-in code (old version)",
  INIT_USER_EMAIL_RECOVERY: "Send a recovery key by e-mail",
  OAUTH: "Sign in with a social account (old version)",
  OAUTH2_AUTHENTICATE: "Authenticate by OAuth 2.0",
  OAUTH_LOGIN: "Sign in with a social account",
  OTP_AUTH: "Sign in with a code (old version)",
  OTP_LOGIN: "Sign in with a code",
  POST_TVC_QUORUM_KEY_SHARE: "Give a share of a program's key",
  RECOVER_USER: "Recover a user",
  REJECT_ACTIVITY: "Reject an activity",
  REMOVE_IP_ALLOWLIST: "Remove the list of allowed IP addresses",
  REMOVE_ORGANIZATION_FEATURE: "Turn off a feature",
  RESEND_WEBHOOK_DELIVERIES: "Send webhook events again",
  RESTORE_TVC_DEPLOYMENT: "Restore a program's deployment",
  RE_ENCRYPT_TVC_QUORUM_KEY_SHARE: "Hand over a share of a program's key",
  SET_IP_ALLOWLIST: "Set the list of allowed IP addresses",
  SET_ORGANIZATION_FEATURE: "Turn on a feature",
  SET_PAYMENT_METHOD: "Set the payment method",
  SIGN_RAW_PAYLOAD: "Sign a message",
  SIGN_RAW_PAYLOADS: "Sign several messages",
  SIGN_TRANSACTION: "Sign a transaction",
  SOL_SEND_TRANSACTION: "Sign and send a transaction on Solana",
  SPARK_CLAIM_TRANSFER: "Claim a transfer on Spark",
  SPARK_PREPARE_LIGHTNING_RECEIVE: "Prepare to receive over Lightning",
  SPARK_PREPARE_TRANSFER: "Prepare a transfer on Spark",
  SPARK_SIGN_FROST: "Sign on Spark",
  STAMP_LOGIN: "Sign in with a passkey or key",
  UPDATE_ALLOWED_ORIGINS: "Change the allowed origins",
  UPDATE_AUTH_PROXY_CONFIG: "Change the auth proxy",
  UPDATE_FIAT_ON_RAMP_CREDENTIAL: "Change an on-ramp account",
  UPDATE_MFA_POLICY: "Change an MFA policy",
  UPDATE_OAUTH2_CREDENTIAL: "Change an OAuth 2.0 client",
  UPDATE_ORGANIZATION_NAME: "Rename the organization",
  UPDATE_PAYMENT_METHOD: "Change the payment method",
  UPDATE_POLICY: "Change a policy",
  UPDATE_PRIVATE_KEY_TAG: "Change a tag of private keys",
  UPDATE_ROOT_QUORUM: "Change the root quorum",
  UPDATE_TVC_APP_LIVE_DEPLOYMENT: "Change a program's live deployment",
  UPDATE_USER: "Change a user",
  UPDATE_USER_EMAIL: "Change a user's e-mail address",
  UPDATE_USER_NAME: "Rename a user",
  UPDATE_USER_PHONE_NUMBER: "Change a user's phone number",
  UPDATE_USER_TAG: "Change a tag of users",
  UPDATE_WALLET: "Rename a wallet",
  UPDATE_WALLET_ACCOUNT_NAME: "Rename an account of a wallet",
  UPDATE_WEBHOOK_ENDPOINT: "Change a webhook",
  UPSERT_GAS_USAGE_CONFIG: "Set the limits of sponsored gas",
  VERIFY_OTP: "Check a code",
};

// kindText is what an activity does, by its type in any version.
export const kindText = (type) => (Object.hasOwn(names, bareType(type)) ? names[bareType(type)] : words(bareType(type)));

// groups are kinds that are looked at together: what they are called, and each part with its name and types.
export const groups = {
  SIGNATURES: ["All signatures", [
    ["Transactions", ["SIGN_TRANSACTION", "ETH_SEND_TRANSACTION", "ETH_UNDELEGATE_7702", "SOL_SEND_TRANSACTION"]],
    ["Messages", ["SIGN_RAW_PAYLOAD", "SIGN_RAW_PAYLOADS"]],
    ["Spark", ["SPARK_SIGN_FROST", "SPARK_PREPARE_TRANSFER", "SPARK_PREPARE_LIGHTNING_RECEIVE", "SPARK_CLAIM_TRANSFER"]],
  ]],
  LOG_INS: ["All sign-ins", [
    ["Passkey or key", ["STAMP_LOGIN"]],
    ["Code or e-mail", ["OTP_LOGIN", "OTP_AUTH", "EMAIL_AUTH"]],
    ["Social account", ["OAUTH_LOGIN", "OAUTH"]],
    ["Session", ["CREATE_READ_WRITE_SESSION", "CREATE_READ_ONLY_SESSION"]],
  ]],
};

// typesOf are the types that a filter names: one type, or those of a group.
export const typesOf = (wanted) => (Object.hasOwn(groups, wanted) ? groups[wanted][1].flatMap(([, types]) => types) : [wanted]);

// filterText is what a filter by type is called.
export const filterText = (wanted) => (Object.hasOwn(groups, wanted) ? groups[wanted][0] : kindText(wanted));

const statusNames = {
  CREATED: "Created", PENDING: "In progress", COMPLETED: "Completed", FAILED: "Failed", REJECTED: "Rejected", REFUSED: "Refused",
  CONSENSUS_NEEDED: "Needs approval", AUTHENTICATORS_NEEDED: "Needs credentials", UNSUCCESSFUL: "Refused, failed or rejected",
};

// statusText is what became of an activity, by its status without prefix.
export const statusText = (status) => statusNames[status] ?? words(status);

// The features of organizations.
const features = {
  OTP_EMAIL_AUTH: "E-mail sign-in codes", SMS_AUTH: "SMS sign-in codes", EMAIL_AUTH: "E-mail sign-in keys", EMAIL_RECOVERY: "E-mail recovery", ROOT_USER_EMAIL_RECOVERY: "E-mail recovery of root users",
  WEBAUTHN_ORIGINS: "Passkey origins", WEBHOOK: "Webhook (old version)", AUTH_PROXY: "Auth proxy", DECODED_VOTES: "Approvals name what was shown", APPROVAL_MAILS: "Mails to approvers", ADDRESS_BOOK: "Address book", STRICT_LOG: "Strict log",
};

// featureText is what a feature is called.
export const featureText = (name) => features[name.replace("FEATURE_NAME_", "")] ?? words(name, "FEATURE_NAME_");
