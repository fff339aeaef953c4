// Parameters of requests, to begin a test with.

const key = { curve: "CURVE_SECP256K1", pathFormat: "PATH_FORMAT_BIP32", path: "m/44'/60'/0'/0/0", addressFormat: "ADDRESS_FORMAT_ETHEREUM" };

// A transfer of 0.01 ETH on Sepolia.
const transfer = "02f283aa36a7808459682f00850165a0bc0082520894113e6debd9c0e655fe2e59e2f494bbe27a906c1f872386f26fc1000080c0";

// A public key of P-256, to which something could be exported.
const target = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";

// newUser is a user with a key that stands for one that is made later: a user must have a credential.
export const newUser = (userName, userTags = []) => ({
  userName, userTags, authenticators: [], oauthProviders: [],
  apiKeys: [{ apiKeyName: "API key", curveType: "API_KEY_CURVE_P256", publicKey: "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" }],
});

// samples are parameters by type, without a version. Ids are of what the organization has, where it has one.
export const samples = ({ address = "", walletId = "", userId }) => ({
  CREATE_WALLET: { walletName: "Trial", accounts: [key] },
  CREATE_WALLET_ACCOUNTS: { walletId, accounts: [{ ...key, path: "m/44'/60'/1'/0/0" }] },
  SIGN_TRANSACTION: { signWith: address, type: "TRANSACTION_TYPE_ETHEREUM", unsignedTransaction: transfer },
  SIGN_RAW_PAYLOAD: { signWith: address, payload: "Hello", encoding: "PAYLOAD_ENCODING_TEXT_UTF8", hashFunction: "HASH_FUNCTION_KECCAK256" },
  EXPORT_WALLET: { walletId, targetPublicKey: target },
  DELETE_WALLETS: { walletIds: [walletId] },
  UPDATE_WALLET: { walletId, walletName: "Trial" },
  CREATE_USERS: { users: [newUser("Trial")] },
  DELETE_USERS: { userIds: [userId] },
  UPDATE_USER_NAME: { userId, userName: "Trial" },
  CREATE_POLICY: { policyName: "Trial", effect: "EFFECT_ALLOW", condition: "activity.kind == 'CREATE_WALLET'", consensus: `approvers.any(user, user.id == '${userId}')`, notes: "" },
  CREATE_USER_TAG: { userTagName: "Trial", userIds: [] },
  CREATE_INVITATIONS: { invitations: [{ receiverUserName: "Trial", receiverUserEmail: "trial@example.com", receiverUserTags: [], accessType: "ACCESS_TYPE_ALL", senderUserId: userId }] },
});
