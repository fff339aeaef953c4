// Whatever changes who may do what, or what there is: each kind is asked for by one person and approved in the browser by another, who is
// shown it by names. Kinds that are approved elsewhere, or that never wait, are listed with the reason, so that none is forgotten.
import assert from "node:assert/strict";
import { createECDH, createHash, randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { encryptOnRampSecret, quorumKeyEncrypt } from "@turnkey/crypto";
import { account, apiKey, approve, drawings, look, newUser, sealed } from "./approver.mjs";
import { authenticator, launch, open, picture, signIn } from "./browser.mjs";
import { Client } from "./client.mjs";
import { controls } from "./controls.mjs";
import { apiUrl, base, organizationId, root, rootUserId, scratch } from "./setting.mjs";
import { makeOpenKey } from "./stamp.mjs";

const { keys, inboxUrl, identityProviderUrl } = JSON.parse(readFileSync(process.env.CLOISTER_SIM_CREDENTIALS));
let browser, page, complaints, bea, cyd;
const { heading } = controls(() => page);
const approved = new Set();
const bare = (type) => type.replace(/^ACTIVITY_TYPE_/, "").replace(/_V\d+$/, "");
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const target = () => hex(createECDH("prime256v1").generateKeys());
const publicKey = async () => (await makeOpenKey()).publicKey;
const suite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1";
const result = (activity) => Object.values(activity.result)[0];
// importTarget is the key that an import is encrypted to.
const importTarget = (bundle) => Buffer.from(JSON.parse(Buffer.from(JSON.parse(bundle).data, "hex")).targetPublic, "hex");

// now does something that nobody else has to approve, before there is a quorum of two.
const now = async (type, parameters) => result(await root.submit(bare(type).toLowerCase(), type, parameters));

// change has somebody else approve what one asks for, who is shown words of it. It gives the result. ends says that the organization ends by it.
async function change(type, parameters, words, { by = root, at = page, voter = bea, ends = false } = {}) {
  const kind = bare(type);
  const asked = await by.submit(kind.toLowerCase(), type, parameters);
  assert.equal(asked.status, "ACTIVITY_STATUS_CONSENSUS_NEEDED", kind);
  try {
    const { decoded } = (await voter.client.query("get_activity", { activityId: asked.id })).activity;
    assert.deepEqual((await drawings(at, { [kind]: decoded })).faults, []);
    await look(asked.id, at);
    for (const text of words) await at.locator(".headline").filter({ hasText: text }).waitFor();
    await picture(at, `right-${kind.toLowerCase().replaceAll("_", "-")}`);
    await approve(at);
    if (ends) await heading("Cloister", at); // signed out
    else await at.locator("dd", { hasText: /Completed|Failed/ }).waitFor();
  } catch (error) {
    await by.submit("reject_activity", "REJECT_ACTIVITY", { fingerprint: asked.fingerprint }).catch(() => null); // the next one begins with nothing that waits
    throw error;
  }
  approved.add(kind);
  if (ends) return null; // nobody is left who could ask what became of it
  const done = (await by.query("get_activity", { activityId: asked.id })).activity;
  assert.equal(done.status, "ACTIVITY_STATUS_COMPLETED", `${kind}: ${done.failure?.message}`);
  assert.match(JSON.parse(done.votes.find((v) => v.userId === voter.userId).message).parameters.decodedDigest, /^[0-9a-f]{64}$/);
  return result(done);
}

// passkey is one that the page makes.
const passkey = (authenticatorName) => page.evaluate(async (name) => {
  const { makePasskey } = await import(document.querySelector("script[src$='main.js']").src.replace("main.js", "stamp.js"));
  return makePasskey({ authenticatorName: name, handle: crypto.getRandomValues(new Uint8Array(16)), userName: name, organizationName: "Test", known: [] });
}, authenticatorName);

const made = {};

before(async () => {
  bea = await newUser("Bea");
  cyd = await newUser("Cyd");
  made.treasury = await now("CREATE_WALLET", { walletName: "Treasury", accounts: [account("SECP256K1", "m/44'/60'/0'/0/0", "ETHEREUM"), account("SECP256K1", "m/44'/60'/0'/0/1", "ETHEREUM")] });
  made.accounts = (await root.query("list_wallet_accounts", { walletId: made.treasury.walletId })).accounts;
  made.spare = (await now("CREATE_PRIVATE_KEYS_V2", { privateKeys: [{ privateKeyName: "Spare", curve: "CURVE_SECP256K1", privateKeyTags: [], addressFormats: ["ADDRESS_FORMAT_ETHEREUM"] }] })).privateKeys[0].privateKeyId;
  made.contract = (await now("CREATE_SMART_CONTRACT_INTERFACE", { label: "Vault", smartContractAddress: `0x${"51".repeat(20)}`, type: "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", smartContractInterface: "[]" })).smartContractInterfaceId;
  made.hook = (await now("CREATE_WEBHOOK_ENDPOINT", { url: "https://hooks.example.com/all", name: "Audit", subscriptions: [{ eventType: "ACTIVITY_UPDATES" }] })).endpointId;
  for (const name of ["EMAIL_AUTH", "EMAIL_RECOVERY", "OTP_EMAIL_AUTH"]) await now("SET_ORGANIZATION_FEATURE", { name: `FEATURE_NAME_${name}`, value: "" });
  await now("UPDATE_ROOT_QUORUM", { threshold: 2, userIds: [rootUserId, bea.userId] });
  browser = await launch();
  ({ page, complaints } = await open(browser));
  await authenticator(page);
  await signIn(page, base, bea.file);
  await heading("Latest activities");
});
after(() => browser.close());

const calm = () => { assert.deepEqual(complaints, []); };

test("users, by what policies know them", async () => {
  const { userIds: [robot] } = await change("CREATE_API_ONLY_USERS", { apiOnlyUsers: [{ userName: "Robot", userTags: [], apiKeys: [{ apiKeyName: "key", publicKey: await publicKey() }] }] }, ["“Robot”"]);
  await change("UPDATE_USER_NAME", { userId: robot, userName: "Clerk" }, ["“Clerk”"]);
  await change("UPDATE_USER_PHONE_NUMBER", { userId: cyd.userId, userPhoneNumber: "+41441234567" }, ["“Cyd”"]);
  await change("UPDATE_USER", { userId: cyd.userId, userEmail: "cyd@example.com" }, ["“Cyd”"]);
  const { apiKeys } = (await root.query("get_user", { userId: robot })).user;
  await change("DELETE_API_KEYS", { userId: robot, apiKeyIds: [apiKeys[0].apiKeyId] }, ["“key”"]);
  const { authenticatorIds } = await change("CREATE_AUTHENTICATORS_V2", { userId: cyd.userId, authenticators: [await passkey("Laptop")] }, ["“Laptop”", "“Cyd”"]);
  await change("DELETE_AUTHENTICATORS", { userId: cyd.userId, authenticatorIds }, ["“Laptop”", "“Cyd”"]);
  calm();
});

test("invitations", async () => {
  const guest = (n) => ({ invitations: [{ receiverUserName: `Guest ${n}`, receiverUserEmail: `guest${n}@example.com`, receiverUserTags: [], accessType: "ACCESS_TYPE_ALL", senderUserId: rootUserId }] });
  const { invitationIds: [first] } = await change("CREATE_INVITATIONS", guest(1), ["“Guest 1”"]);
  await change("ACCEPT_INVITATION_V2", { invitationId: first, userId: first, authenticator: await passkey("Guest's phone") }, ["“Guest 1”"]);
  const { invitationIds: [second] } = await change("CREATE_INVITATIONS", guest(2), ["“Guest 2”"]);
  await change("DELETE_INVITATION", { invitationId: second }, ["“Guest 2”"]);
  calm();
});

test("second factors and sessions", async () => {
  const { mfaPolicyId } = await change("CREATE_MFA_POLICY", { userId: cyd.userId, mfaPolicyName: "Two to sign", condition: "activity.action == 'SIGN'", order: 1, notes: "", requiredAuthenticationMethods: [{ any: [{ type: "AUTHENTICATION_TYPE_API_KEY" }] }] }, ["“Two to sign”", "“Cyd”"]);
  await change("UPDATE_MFA_POLICY", { userId: cyd.userId, mfaPolicyId, condition: "activity.action == 'EXPORT'" }, ["“Two to sign”", "condition"]);
  await change("DELETE_MFA_POLICY", { userId: cyd.userId, mfaPolicyId }, ["“Two to sign”"]);
  await change("CREATE_SESSION_PROFILE", { sessionProfileName: "Till", scope: "activity.kind == 'CREATE_WALLET'", expirationSeconds: "600", notes: "" }, ["“Till”"]);
  calm();
});

test("policies and tags of private keys", async () => {
  const policy = (policyName) => ({ policyName, effect: "EFFECT_ALLOW", condition: `wallet.id == '${made.treasury.walletId}' && activity.kind == 'SIGN_TRANSACTION'`, consensus: `approvers.any(user, user.id == '${cyd.userId}')`, notes: "" });
  const { policyIds } = await change("CREATE_POLICIES", { policies: [policy("One"), policy("Two")] }, ["“One”", "“Two”"]);
  await change("DELETE_POLICIES", { policyIds }, ["“One”", "“Two”"]);
  const { privateKeyTagId } = await change("CREATE_PRIVATE_KEY_TAG", { privateKeyTagName: "Hot", privateKeyIds: [] }, ["“Hot”"]);
  await change("UPDATE_PRIVATE_KEY_TAG", { privateKeyTagId, addPrivateKeyIds: [made.spare], removePrivateKeyIds: [] }, ["“Hot”", "“Spare”"]);
  await change("DELETE_PRIVATE_KEY_TAGS", { privateKeyTagIds: [privateKeyTagId] }, ["“Hot”"]);
  calm();
});

test("wallets and private keys", async () => {
  const { walletId } = made.treasury;
  await change("CREATE_WALLET_ACCOUNTS", { walletId, accounts: [account("SECP256K1", "m/44'/60'/0'/0/2", "ETHEREUM")] }, ["“Treasury”"]);
  await change("UPDATE_WALLET", { walletId, walletName: "Vault" }, ["“Vault”"]);
  await change("UPDATE_WALLET_ACCOUNT_NAME", { walletAccountId: made.accounts[0].walletAccountId, name: "Payroll" }, [made.accounts[0].address, "“Payroll”"]);
  await change("EXPORT_WALLET_ACCOUNT", { address: made.accounts[0].address, targetPublicKey: target() }, [made.accounts[0].address, "“Vault”"]);
  await change("DELETE_WALLET_ACCOUNTS", { walletAccountIds: [made.accounts[1].walletAccountId], deleteWithoutExport: true }, [made.accounts[1].address]);
  const [key] = (await change("CREATE_PRIVATE_KEYS_V2", { privateKeys: [{ privateKeyName: "Another", curve: "CURVE_SECP256K1", privateKeyTags: [], addressFormats: ["ADDRESS_FORMAT_ETHEREUM"] }] }, ["“Another”"])).privateKeys;
  await change("EXPORT_PRIVATE_KEY", { privateKeyId: key.privateKeyId, targetPublicKey: target() }, ["“Another”"]);
  await change("DISABLE_PRIVATE_KEY", { privateKeyId: key.privateKeyId }, ["“Another”"]);
  await change("DELETE_PRIVATE_KEYS", { privateKeyIds: [key.privateKeyId], deleteWithoutExport: true }, ["“Another”"]);
  const { importBundle } = await change("INIT_IMPORT_PRIVATE_KEY", { userId: rootUserId }, ["“Root user”"]);
  await change("IMPORT_PRIVATE_KEY", { userId: rootUserId, privateKeyName: "Brought along", encryptedBundle: sealed(importTarget(importBundle), randomBytes(32)), curve: "CURVE_SECP256K1", addressFormats: ["ADDRESS_FORMAT_ETHEREUM"] }, ["“Brought along”"]);
  await change("INIT_IMPORT_WALLET", { userId: rootUserId }, ["“Root user”"]);
  const other = await change("CREATE_WALLET", { walletName: "Short-lived", accounts: [] }, ["“Short-lived”"]);
  await change("DELETE_WALLETS", { walletIds: [other.walletId], deleteWithoutExport: true }, ["“Short-lived”"]);
  calm();
});

test("secrets", async () => {
  const { enclaveTargetMessages: [message] } = await change("INIT_IMPORT_SECRETS", { encryptionSuite: suite, numSecrets: 1 }, []);
  const to = importTarget(message);
  const { secretIds: [secretId] } = await change("IMPORT_SECRETS", { secrets: [{ name: "API token", secretPayload: sealed(to, "a secret"), targetPublicKey: hex(to), encryptionSuite: suite, staticProperties: [{ key: "for", value: "exchange" }] }] }, ["“API token”"]);
  await change("EXPORT_SECRETS", { secrets: [{ secretId, targetPublicKey: target(), encryptionSuite: suite }] }, ["“API token”"]);
  await change("DELETE_SECRETS", { secretIds: [secretId] }, ["“API token”"]);
  calm();
});

test("the organization: its name, where requests come from, who is told of them", async () => {
  await change("UPDATE_ORGANIZATION_NAME", { organizationName: "Acme" }, ["“Acme”"]);
  await change("UPDATE_ALLOWED_ORIGINS", { allowedOrigins: ["https://app.example.com", new URL(base).origin] }, []);
  await change("SET_IP_ALLOWLIST", { enabled: true, rules: [{ cidr: "127.0.0.0/24", label: "here" }, { cidr: "::1/128", label: "here too" }], onEvaluationError: "ALLOW" }, []);
  await change("REMOVE_IP_ALLOWLIST", {}, []);
  await change("UPDATE_WEBHOOK_ENDPOINT", { endpointId: made.hook, url: "https://hooks.example.com/other" }, ["“Audit”"]);
  await change("DELETE_SMART_CONTRACT_INTERFACE", { smartContractInterfaceId: made.contract }, ["“Vault”"]);
  await change("UPSERT_GAS_USAGE_CONFIG", { orgWindowLimitUsd: "500", subOrgWindowLimitUsd: "1", windowDurationMinutes: "60" }, []);
  const { deliveries: [delivery] } = await root.query("list_webhook_deliveries", { endpointId: made.hook });
  await change("RESEND_WEBHOOK_DELIVERIES", { endpointId: made.hook, deliveryIds: [delivery.deliveryId] }, ["“Audit”"]);
  await change("EXPORT_HISTORY", {}, []);
  await change("ENABLE_AUTH_PROXY", {}, []);
  await change("UPDATE_AUTH_PROXY_CONFIG", { allowedOrigins: ["https://app.example.com"] }, []);
  await change("DISABLE_AUTH_PROXY", {}, []);
  calm();
});

// identityToken is one of the simulator's identity provider, for somebody who signs in there.
async function identityToken(email, nonce) {
  const asked = new URLSearchParams({ client_id: "app", redirect_uri: "http://localhost/", response_type: "id_token", scope: "openid email", nonce });
  const answer = await fetch(`${identityProviderUrl}/authorize?${asked}`, { method: "POST", body: new URLSearchParams({ email, verified: "yes" }), redirect: "manual" });
  return new URLSearchParams(new URL(answer.headers.get("location")).hash.slice(1)).get("id_token");
}
const hashOf = (key) => createHash("sha256").update(key).digest("hex");

// mailedCode is the newest one that came to an address.
async function mailedCode(to) {
  const { messages } = await (await fetch(`${inboxUrl}/messages`)).json();
  return messages.filter((m) => m.to === to && m.code).sort((a, b) => b.receivedAt.localeCompare(a.receivedAt))[0].code;
}

test("log-ins for somebody", async () => {
  const [email, appName] = ["cyd@example.com", "App"];
  await change("EMAIL_AUTH_V3", { email, targetPublicKey: target(), emailCustomization: { appName } }, ["“Cyd”"]);
  await change("INIT_USER_EMAIL_RECOVERY_V2", { email, targetPublicKey: target(), emailCustomization: { appName } }, ["“Cyd”"]);

  const code = { otpType: "OTP_TYPE_EMAIL", contact: email };
  const { otpId } = await change("INIT_OTP_AUTH_V3", { ...code, appName }, [`“${email}”`]);
  await change("OTP_AUTH", { otpId, otpCode: await mailedCode(email), targetPublicKey: target() }, ["“Cyd”"]);
  const { otpId: second } = await change("INIT_OTP", code, [`“${email}”`]);
  const { verificationToken } = await change("VERIFY_OTP", { otpId: second, otpCode: await mailedCode(email) }, []);
  await change("OTP_LOGIN", { verificationToken, publicKey: await publicKey() }, []);

  const { providerIds } = await change("CREATE_OAUTH_PROVIDERS", { userId: cyd.userId, oauthProviders: [{ providerName: "Work", oidcToken: await identityToken(email, "1") }] }, ["“Work”", "“Cyd”"]);
  const [one, two] = [await publicKey(), target()];
  await change("OAUTH_LOGIN", { oidcToken: await identityToken(email, hashOf(one)), publicKey: one }, ["“Cyd”"]);
  await change("OAUTH", { oidcToken: await identityToken(email, hashOf(two)), targetPublicKey: two }, ["“Cyd”"]);
  await change("DELETE_OAUTH_PROVIDERS", { userId: cyd.userId, providerIds }, ["“Cyd”"]);
  calm();
});

test("credentials at other services", async () => {
  const secret = async () => hex(await quorumKeyEncrypt(Buffer.from(keys.fetcherEncrypt, "hex"), Buffer.from("a secret")));
  const x = { provider: "OAUTH2_PROVIDER_X", clientId: "our-client" };
  const { oauth2CredentialId } = await change("CREATE_OAUTH2_CREDENTIAL", { ...x, encryptedClientSecret: await secret() }, ["“our-client”"]);
  await change("UPDATE_OAUTH2_CREDENTIAL", { ...x, oauth2CredentialId, clientId: "another", encryptedClientSecret: await secret() }, ["“another”"]);
  await change("DELETE_OAUTH2_CREDENTIAL", { oauth2CredentialId }, ["“another”"]);
  const moonpay = { onrampProvider: "FIAT_ON_RAMP_PROVIDER_MOONPAY", publishableApiKey: "pk_test_one", encryptedSecretApiKey: encryptOnRampSecret("sk_test", keys.onRamp) };
  const { fiatOnRampCredentialId: fiatOnrampCredentialId } = await change("CREATE_FIAT_ON_RAMP_CREDENTIAL", moonpay, ["credential: “pk_test_one”"]);
  await change("UPDATE_FIAT_ON_RAMP_CREDENTIAL", { ...moonpay, fiatOnrampCredentialId, publishableApiKey: "pk_test_two" }, ["“pk_test_one”"]);
  await change("DELETE_FIAT_ON_RAMP_CREDENTIAL", { fiatOnrampCredentialId }, ["“pk_test_two”"]);
  calm();
});

test("customers' programs", async () => {
  const operators = [0, 1].map(() => ({ name: hex(randomBytes(3)), publicKey: target() + target() }));
  const set = { name: "Holders", threshold: 2, newOperators: operators };
  const { appId } = await change("CREATE_TVC_APP", { name: "Payroll", quorumPublicKey: target() + target(), manifestSetParams: set, shareSetParams: set }, ["“Payroll”"]);
  await change("CREATE_TVC_OPERATOR", { walletName: "Operators", path: "m/5527107'/0'/0'", operatorName: "Hosted" }, ["“Hosted”"]);
  await change("CREATE_TVC_QUORUM_KEY", { threshold: 2, operatorEncryptKeys: operators.map((o) => o.publicKey.slice(0, 130)) }, []);
  await change("DELETE_TVC_APP_AND_DEPLOYMENTS", { appId }, ["“Payroll”"]);
  calm();
});

// inside is another person's browser, signed in to a sub-organization.
async function inside(organization, userId, pair) {
  const file = join(scratch, `${userId}.json`);
  writeFileSync(file, JSON.stringify({ organizationId: organization, ...pair }));
  const there = await open(browser);
  await signIn(there.page, base, file);
  await there.page.getByRole("heading", { name: "Latest activities" }).waitFor();
  return { ...there, userId, client: new Client({ apiUrl, organizationId: organization, ...pair }) };
}

test("organizations", async () => {
  await change("CREATE_ORGANIZATION_V2", { organizationName: "Daughter", rootEmail: "root@example.com", rootAuthenticator: await passkey("First") }, ["“Daughter”"]);
  const [eve, fay] = [await makeOpenKey(), await makeOpenKey()];
  const person = (userName, pair) => ({ userName, apiKeys: [apiKey("key", pair.publicKey)], authenticators: [], oauthProviders: [] });
  const { subOrganizationId, rootUserIds } = await change("CREATE_SUB_ORGANIZATION_V8", { subOrganizationName: "Customer", rootQuorumThreshold: 2, rootUsers: [person("Eve", eve), person("Fay", fay)] }, ["“Customer”"]);
  const there = await inside(subOrganizationId, rootUserIds[1], fay);
  await change("DELETE_SUB_ORGANIZATION", { deleteWithoutExport: true }, ["“Customer”"], { by: new Client({ apiUrl, organizationId: subOrganizationId, ...eve }), at: there.page, voter: there, ends: true });
  await picture(there.page, "right-ended");
  assert.equal((await root.query("list_suborgs", { filterType: "NAME", filterValue: "Customer" })).organizationIds.length, 0);
  assert.deepEqual(there.complaints, []);
  await there.context.close();
  const { wallets } = await root.query("list_wallets");
  await change("DELETE_WALLETS", { walletIds: wallets.map((w) => w.walletId), deleteWithoutExport: true }, []);
  const { privateKeys } = await root.query("list_private_keys");
  await change("DELETE_PRIVATE_KEYS", { privateKeyIds: privateKeys.map((k) => k.privateKeyId), deleteWithoutExport: true }, []);
  await change("DELETE_ORGANIZATION", { organizationId }, ["“Acme”"], { ends: true });
  await assert.rejects(root.query("whoami"));
  calm();
});

// ---- None is forgotten

// Approved in approvals.mjs.
const elsewhere = new Set(["CREATE_API_KEYS", "CREATE_POLICY", "CREATE_READ_WRITE_SESSION", "CREATE_USERS", "CREATE_USER_TAG", "CREATE_WEBHOOK_ENDPOINT", "DELETE_POLICY", "DELETE_USERS", "DELETE_USER_TAGS", "DELETE_WEBHOOK_ENDPOINT", "EXPORT_WALLET",
  "IMPORT_WALLET", "REMOVE_ORGANIZATION_FEATURE", "SET_ORGANIZATION_FEATURE", "SIGN_RAW_PAYLOAD", "SIGN_RAW_PAYLOADS", "SIGN_TRANSACTION", "UPDATE_POLICY", "UPDATE_ROOT_QUORUM", "UPDATE_USER_EMAIL", "UPDATE_USER_TAG", "CREATE_SMART_CONTRACT_INTERFACE"]);

// Why nobody has to approve a kind, or why this simulator cannot do it.
const own = "who does it does it for himself, and it never waits";
const vote = "a vote never waits for votes";
const node = "it needs a node of a chain; what it signs is shown as in approvals.mjs";
const spark = "nobody here can read what is signed, as of any bytes, and the view says so";
const program = "it needs an image of a customer's program";
const bill = "it gives nobody rights, and needs a payment provider";
const others = {
  APPROVE_ACTIVITY: vote, REJECT_ACTIVITY: vote, CREATE_READ_ONLY_SESSION: own, RECOVER_USER: own, STAMP_LOGIN: own,
  ETH_SEND_RAW_TRANSACTION: node, ETH_SEND_TRANSACTION: node, ETH_UNDELEGATE_7702: node, SOL_SEND_TRANSACTION: node,
  SPARK_CLAIM_TRANSFER: spark, SPARK_PREPARE_LIGHTNING_RECEIVE: spark, SPARK_PREPARE_TRANSFER: spark, SPARK_SIGN_FROST: spark,
  CREATE_TVC_DEPLOYMENT: program, CREATE_TVC_MANIFEST_APPROVALS: program, DELETE_TVC_DEPLOYMENT: program, POST_TVC_QUORUM_KEY_SHARE: program, RESTORE_TVC_DEPLOYMENT: program, RE_ENCRYPT_TVC_QUORUM_KEY_SHARE: program,
  UPDATE_TVC_APP_LIVE_DEPLOYMENT: program, ACTIVATE_BILLING_TIER: bill, DELETE_PAYMENT_METHOD: bill, SET_PAYMENT_METHOD: bill, UPDATE_PAYMENT_METHOD: bill,
  INIT_FIAT_ON_RAMP: "it gives nobody rights, and needs a provider", OAUTH2_AUTHENTICATE: "it needs a provider; what uses its token says who is logged in",
};

test("every kind of activity is approved by somebody who saw it, or there is a reason why not", () => {
  const types = [...readFileSync("host/dashboard/web/types.js", "utf8").matchAll(/^ {2}([A-Z0-9_]+): \[/gm)].map(([, name]) => name);
  assert(types.length > 100);
  const left = types.filter((name) => !approved.has(name) && !elsewhere.has(name) && !others[name]);
  assert.deepEqual(left, []);
  assert.deepEqual([...elsewhere, ...Object.keys(others)].filter((name) => approved.has(name) || !types.includes(name)), []);
});
